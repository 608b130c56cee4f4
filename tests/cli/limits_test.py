"""Limits for what dlprobe starts: what the command sees, what is refused beforehand, what remains."""

import glob
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import DLPROBE, HAS_LOADER, NEEDS_UNSHARE, TIMEOUT, can_unshare, children, dlprobe, python_program, report_of

# Arguments, what the one line has to say.
REFUSED = [
    (["--limit-memory", "0"], "--limit-memory 0 B is too little"),
    (["--limit-memory", "-5"], "'-5' is not a size"),
    (["--limit-memory", "1000k"], "too little to start a program: give 1m or more"),
    (["--limit-memory", "1.5g"], "'1.5g' is not a size"),
    (["--limit-memory", "8000t"], "is above the"),
    (["--limit-memory", "99999999999t"], "too large a size"),
    (["--limit-memory"], "--limit-memory"),
    (["--limit-fds", "0"], "--limit-fds 0 is too little"),
    (["--limit-fds", "-1"], "'-1' is not a whole number"),
    (["--limit-fds", "many"], "'many' is not a whole number"),
    (["--limit-fds", "3"], "give 4 or more"),
    (["--limit-fds", "4000000000"], "is above the hard limit"),
    (["--shm-size", "0"], "--shm-size 0 B is less than a page"),
    (["--shm-size", "64mm"], "'64mm' is not a size"),
    (["--shm-size", ""], "--shm-size: '' is not a size"),
    (["--limit-fds", ""], "--limit-fds: '' is not"),
]
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# In a user namespace that may have none below it, and without capabilities.
WITHOUT_NAMESPACES = ["unshare", "-U", "-r", "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces && "
                      'exec setpriv --bounding-set=-all "$@"', "sh"]


def own_memory_group():
    """The folder of the v1 memory cgroup of this process; None where there is none to work in."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            folder = "/sys/fs/cgroup/memory" + path.rstrip("/")
            if "memory" in controllers.split(",") and os.access(folder, os.W_OK):
                return folder
    return None


GROUP = own_memory_group()
NEEDS_GROUP = "needs a v1 memory cgroup that may be written to: run the tests as root where there is one"


def groups():
    return glob.glob(f"{GROUP}/dlprobe-*")


def works(prefix):
    return subprocess.run([*prefix, DLPROBE, "--version"], capture_output=True, check=False).returncode == 0


class Refusals(unittest.TestCase):
    def assert_refused(self, done, words, marker=None):
        text = done.stderr.decode()
        self.assertEqual(done.returncode, 2, text)
        self.assertIn(words, text)
        self.assertEqual((done.stdout, text.count("\n")), (b"", 1), text)
        self.assertEqual(children(), [])
        if marker:
            self.assertFalse(os.path.exists(marker), "the command was started")

    def test_what_makes_no_sense(self):
        with tempfile.TemporaryDirectory() as folder:
            marker = os.path.join(folder, "started")
            for arguments, words in REFUSED:
                with self.subTest(arguments=arguments):
                    self.assert_refused(dlprobe("shm", *arguments, "--", "touch", marker), words, marker)

    def test_what_runs_already_has_its_limits(self):
        for option in ("--limit-memory", "--limit-fds", "--shm-size"):
            with self.subTest(option):
                self.assert_refused(dlprobe("shm", "--pid", 1, option, "1000000"), "already has its limits")

    @unittest.skipUnless(os.geteuid() == 0 and works(AS_NOBODY), "needs two users: run as root")
    def test_memory_without_the_right(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            marker = os.path.join(folder, "started")
            done = subprocess.run([*AS_NOBODY, DLPROBE, "shm", "--limit-memory", "64m", "--", "touch", marker],
                                  capture_output=True, timeout=TIMEOUT, check=False)
            self.assert_refused(done, "needs", marker)

    @unittest.skipUnless(works(WITHOUT_NAMESPACES), "needs user namespaces: allow them, or run as root")
    def test_shm_without_the_right(self):
        with tempfile.TemporaryDirectory() as folder:
            marker = os.path.join(folder, "started")
            done = subprocess.run([*WITHOUT_NAMESPACES, DLPROBE, "shm", "--shm-size", "1m", "--", "touch", marker],
                                  capture_output=True, timeout=TIMEOUT, check=False)
            self.assert_refused(done, "--shm-size: needs root (CAP_SYS_ADMIN) or unprivileged user namespaces", marker)

    def test_a_command_that_is_not_there_is_told_as_without_limits(self):
        limits = ["--limit-fds", "100"] + (["--shm-size", "1m"] if can_unshare() else [])
        limits += ["--limit-memory", "64m"] if GROUP else []
        self.assertEqual(dlprobe("shm", *limits, "--", "no-such-command-anywhere").returncode, 127)
        self.assertEqual(dlprobe("shm", *limits, "--", "/etc/passwd").returncode, 126)
        self.assertEqual(groups() if GROUP else [], [])


class Files(unittest.TestCase):
    def test_soft_and_hard(self):
        done = dlprobe("shm", "-q", "--limit-fds", "64", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
        self.assertTrue(done.stdout.startswith(b"64\n64\n"), done.stdout)
        report = report_of("shm", "--limit-fds", "64", "--", "sleep", "0.3")
        self.assertEqual(report["processes"][0]["open_files_limit"], 64)
        self.assertIn("64 open files", str(report["timeline"]["events"]))


    def test_of_dlprobe_itself_too_few_are_told_at_the_start(self):
        for files, told in ((40, b"--limit-fds 40"), (1024, b"")):
            script = f'ulimit -n {files}; exec "$@"'
            done = subprocess.run(["sh", "-c", script, "sh", *AS_NOBODY, DLPROBE, "run", "--", "sh", "-c", "ulimit -n"],
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, b"%d\n" % files), done.stderr)
            self.assertEqual(told in done.stderr, True, done.stderr)
            self.assertEqual(b"may miss a hang" in done.stderr, bool(told), done.stderr)


class Stack(unittest.TestCase):
    def test_a_small_one_is_enough_and_the_command_has_it_too(self):
        script = 'ulimit -s 64; "$0" run -- bash -c "ulimit -s; exit 3"; echo $?; "$0" attach -q --for 0s $$; exit $?'
        done = subprocess.run(["bash", "-c", script, DLPROBE], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT, check=False)
        self.assertEqual(done.stdout[:5], b"64\n3\n", done.stderr)
        self.assertIn(done.returncode, (0, 3), done.stderr)


class Shm(unittest.TestCase):
    def check_private(self, prefix, uid):
        name = f"dlprobe-limits-test-{os.getpid()}"
        script = (f"df -B1 --output=size /dev/shm | tail -1; id -u; head -c 3000000 /dev/zero > /dev/shm/{name}; "
                  "sleep 0.4")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            report = os.path.join(folder, "r.json")
            done = subprocess.run([*prefix, DLPROBE, "shm", "-q", "-f", f"json={report}", "--shm-size", "64m", "--",
                                   "sh", "-c", script], capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual(done.stdout.split()[:2], [b"67108864", uid], done.stdout + done.stderr)
            with open(report, encoding="utf-8") as file:
                text = file.read()
        self.assertFalse(os.path.exists(f"/dev/shm/{name}"))
        self.assertIn("67108864", text, "dlprobe saw another /dev/shm than the command's")
        self.assertNotIn("cannot-see", text)

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_as_root(self):
        self.check_private([], str(os.geteuid()).encode())

    @unittest.skipUnless(os.geteuid() == 0 and works(AS_NOBODY), "needs two users: run as root")
    def test_without_root_the_user_id_stays(self):
        if subprocess.run([*AS_NOBODY, "unshare", "-U", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("needs unprivileged user namespaces")
        self.check_private(AS_NOBODY, b"65534")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_of_a_command_that_is_gone_at_once_it_is_still_known(self):
        text = str(report_of("shm", "--shm-size", "12m", "--", "true"))
        self.assertIn(str(12 << 20), text)

    @unittest.skipUnless(can_unshare() and HAS_LOADER, "needs the reference loader and a mount namespace")
    def test_the_reference_loader_too(self):
        report = report_of("shm", "--shm-size", "4m", "--start-method", "fork", "--sharing-strategy", "file_descriptor")
        self.assertEqual(report["summary"]["verdict"], "fail", report["summary"])
        self.assertEqual([finding["code"] for finding in report["findings"]][0], "DLP0101")


@unittest.skipUnless(GROUP, NEEDS_GROUP)
class Memory(unittest.TestCase):
    def tearDown(self):
        for group in groups():
            os.rmdir(group)

    def test_the_command_is_in_a_group_of_its_own_which_goes_with_it(self):
        report = report_of("shm", "--limit-memory", "64m", "--", "sleep", "0.3")
        group = report["processes"][0]["cgroup"]
        self.assertRegex(group, r"/dlprobe-\d+-\d+$")
        self.assertTrue(("/sys/fs/cgroup/memory" + group).startswith(GROUP + "/"))
        self.assertEqual(groups(), [])

    def test_too_much_memory_is_a_kill(self):
        report = report_of("shm", "--limit-memory", "64m", "--", *python_program("x = bytearray(200 << 20)"))
        self.assertEqual(report["processes"][0]["exit"]["signal"], signal.SIGKILL)
        self.assertEqual(groups(), [])

    def test_enough_memory_is_none(self):
        report = report_of("shm", "--limit-memory", "256m", "--", *python_program("x = bytearray(64 << 20)"))
        self.assertEqual(report["processes"][0]["exit"]["exit_code"], 0)

    def test_what_remains_is_said_and_removed_by_a_later_run(self):
        done = dlprobe("shm", "-q", "--for", "200ms", "--limit-memory", "64m", "--", "sh", "-c",
                       "exec sleep 100 > /dev/null 2>&1")
        [group] = groups()
        self.assertIn(f"the cgroup {group} remains, with 1 process in it".encode(), done.stderr)
        dlprobe("shm", "-q", "--limit-memory", "64m", "--", "true")
        self.assertEqual(groups(), [group], "it is in use")
        with open(f"{group}/cgroup.procs", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        self.wait_for_empty(group)
        dlprobe("shm", "-q", "--limit-memory", "64m", "--", "true")
        self.assertEqual(groups(), [])

    def test_a_killed_dlprobe_leaves_the_job_alone_and_its_group_to_the_next(self):
        with subprocess.Popen([DLPROBE, "shm", "-q", "--limit-memory", "64m", "--",
                               *python_program("import os, sys; print(os.getpid(), flush=True); sys.stdin.read()")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            pid = int(process.stdout.readline())
            process.kill()
            process.wait(TIMEOUT)
            os.kill(pid, 0)
            [group] = groups()
            process.stdin.close()  # which ends the job
        self.wait_for_empty(group)
        dlprobe("shm", "-q", "--limit-memory", "64m", "--", "true")
        self.assertEqual(groups(), [])

    def wait_for_empty(self, group):
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            with open(f"{group}/cgroup.procs", encoding="ascii") as file:
                if not file.read():
                    return
            time.sleep(0.02)
        self.fail(f"{group} does not get empty")


if __name__ == "__main__":
    sys.exit(unittest.main())
