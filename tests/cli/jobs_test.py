"""The jobs of a machine: ps lists them, attach finds the one that is meant; in a pid namespace with no other job."""

import contextlib
import getpass
import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest

from support import DLPROBE, FORKING_JOB, NEEDS_UNSHARE, TIMEOUT, can_unshare, wait_until

# Two ranks of a job without workers, below a launcher.
LAUNCHER = """
import os, subprocess, sys
def rank(number):
    variables = dict(RANK=number, WORLD_SIZE="2", MASTER_ADDR="n1", MASTER_PORT="29500", TORCHELASTIC_RUN_ID="run-of-june")
    return subprocess.Popen([sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **variables})
ranks = [rank("0"), rank("1")]
for each in ranks: each.stdout.readline()
print(os.getpid(), flush=True)
sys.stdin.readline()
for each in ranks: each.communicate()
"""
# Two such workers, whose trainer ends as soon as they are there; they wait for a signal.
ORPHANS = """
import os, signal
ready = os.pipe()
for _ in range(2):
    if os.fork() == 0:
        with open("/proc/self/comm", "w", encoding="utf-8") as comm: comm.write("pt_data_worker")
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        os.write(ready[1], b"x")
        signal.pause()
for _ in range(2): os.read(ready[0], 1)
print(os.getpid(), flush=True)
"""
# A megabyte of /dev/shm without a name, which each process of the job has open and mapped.
SEGMENT = """
import mmap, os, tempfile
segment = tempfile.TemporaryFile(dir="/dev/shm")
segment.write(bytes(1 << 20))
segment.flush()
mapping = mmap.mmap(segment.fileno(), 1 << 20)
"""
ALONE = "import os, sys\nprint(os.getpid(), flush=True)\nsys.stdin.readline()\n"
WORKERS = "pt_data_worker"
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
class Jobs(unittest.TestCase):
    def setUp(self):
        self.open = contextlib.ExitStack()
        self.addCleanup(self.open.close)
        self.folder = self.open.enter_context(tempfile.TemporaryDirectory())
        os.chmod(self.folder, 0o755)
        # Its end ends all that is in the namespace.
        holder = self.open.enter_context(subprocess.Popen(
            ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "cat"], stdin=subprocess.PIPE))
        self.open.callback(holder.stdin.close)
        children = f"/proc/{holder.pid}/task/{holder.pid}/children"

        def first():
            with open(children, encoding="ascii") as file:
                pids = file.read().split()
            return pids and os.readlink(f"/proc/{pids[0]}/exe").endswith("cat") and pids[0]
        self.assertTrue(wait_until(first))
        self.enter = ["nsenter", "-t", first(), "-p", "-m"]

    def start(self, name, program, *arguments):
        """Runs the program as a file of that name; the pid that it prints."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        process = self.open.enter_context(subprocess.Popen([*self.enter, sys.executable, path, *arguments],
                                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.open.callback(process.stdin.close)
        return int(process.stdout.readline())

    def dlprobe(self, *arguments, user=()):
        return subprocess.run([*self.enter, *user, os.path.abspath(DLPROBE), *map(str, arguments)], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIMEOUT, check=False)

    def jobs(self):
        return json.loads(self.dlprobe("ps", "-f", "json").stdout)["jobs"]

    def attached(self, *arguments):
        """The pid of the subject that attach took."""
        done = self.dlprobe("attach", *arguments, "--for", "0s", "--json")
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return json.loads(done.stdout)["subject"]["asked_pid"], done.stderr.decode()

    def refused(self, *arguments):
        done = self.dlprobe("attach", *arguments, "--for", "0s")
        self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
        return done.stderr.decode()

    def test_a_process_without_workers_is_no_job(self):
        self.start("train.py", ALONE)
        done = self.dlprobe("ps")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, b"no job on this machine loads data by worker processes\n")
        self.assertIn("no job on this machine loads data", self.refused())
        self.assertIn("no job on this machine loads data", self.refused("train.py"))

    def test_the_only_job_is_taken_and_named(self):
        pid = self.start("train.py", FORKING_JOB, WORKERS)
        self.start("other.py", ALONE)
        taken, said = self.attached()
        self.assertEqual(taken, pid)
        self.assertRegex(said, rf"looking at process {pid} of root: .*/train.py {WORKERS}")
        self.assertNotIn("orphaned_workers", json.loads(self.dlprobe("ps", "-f", "json").stdout))
        (job,) = self.jobs()
        self.assertEqual((job["pid"], job["workers"], job["ranks"], job["state"], job["is_pool"], job["user"]),
                         (pid, 2, 0, "waits", False, "root"))
        self.assertGreater(job["age_s"], 0)

    def test_a_worker_that_has_long_not_run_is_told(self):
        self.start("train.py", FORKING_JOB, WORKERS)
        self.start("sweep.py", FORKING_JOB, "pool")
        self.assertTrue(wait_until(lambda: self.jobs()[0].get("longest_wait_s")))
        job, pool = self.jobs()
        self.assertGreaterEqual(job["longest_wait_s"], 10)
        self.assertNotIn("longest_wait_s", pool, "it may have nothing to do")
        self.assertRegex(self.dlprobe("ps").stdout.decode(), r"waits, \d+\.\d s ")

    def test_several_jobs_are_listed_and_one_is_taken_by_its_name(self):
        one = self.start("train.py", FORKING_JOB, WORKERS)
        other = self.start("eval.py", FORKING_JOB, WORKERS, "--run", "blue")
        said = self.refused()
        self.assertIn("2 jobs: name one by its pid or by a word of its command", said)
        for pid, name in ((one, "train.py"), (other, "eval.py")):
            self.assertRegex(said, rf"(?m)^{pid} ")
            self.assertIn(name, said)
            self.assertEqual(self.attached(name)[0], pid)
        self.assertEqual(self.attached("blue")[0], other)
        self.assertEqual(self.attached("EVAL")[0], other)
        self.assertIn("2 jobs", self.refused("python"))
        self.assertIn("no job of this machine is called 'green'", self.refused("green"))
        self.assertIn("'' is not a process id", self.refused(""))

    def test_what_each_job_has_of_shm_counts_once(self):
        much = self.start("train.py", SEGMENT + FORKING_JOB, WORKERS)
        none = self.start("eval.py", FORKING_JOB, WORKERS)
        self.assertEqual({job["pid"]: job["shm_bytes"] for job in self.jobs()}, {much: 1 << 20, none: 0})
        self.assertRegex(self.dlprobe("ps").stdout.decode(), rf"(?m)^{much} .* 2 +1\.0 MiB +waits ")

    def test_two_jobs_of_one_name_are_listed(self):
        pids = [self.start("train.py", FORKING_JOB, WORKERS, number) for number in "12"]
        self.start("eval.py", FORKING_JOB, WORKERS)
        said = self.refused("train.py")
        for pid in pids:
            self.assertRegex(said, rf"(?m)^{pid} ")
        self.assertNotIn("eval.py", said)

    def test_a_person_at_a_terminal_is_asked(self):
        self.start("train.py", FORKING_JOB, WORKERS)
        other = self.start("eval.py", FORKING_JOB, WORKERS)
        ours, theirs = pty.openpty()
        command = [*self.enter, os.path.abspath(DLPROBE), "attach", "--for", "0s", "--json"]
        with subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE) as asked:
            os.close(theirs)
            os.write(ours, f"junk\n{other}\n".encode())
            report = json.loads(asked.stdout.read())
        os.close(ours)
        self.assertEqual(report["subject"]["asked_pid"], other)

    def test_a_pool_is_taken_where_nothing_surely_loads_data(self):
        pool = self.start("sweep.py", FORKING_JOB, "pool")
        self.assertEqual(self.attached()[0], pool)
        loader = self.start("train.py", FORKING_JOB, WORKERS)
        self.assertEqual(self.attached()[0], loader)
        self.assertEqual([(job["pid"], job["is_pool"]) for job in self.jobs()], [(loader, False), (pool, True)])
        self.assertIn("2 (pool)", self.dlprobe("ps").stdout.decode())

    def test_workers_whose_trainer_is_gone_are_listed(self):
        living = self.start("train.py", FORKING_JOB, WORKERS)
        gone = self.start("old.py", ORPHANS)

        def orphans():
            listed = json.loads(self.dlprobe("ps", "-f", "json").stdout)
            self.assertIn([living], ([job["pid"] for job in listed["jobs"] if job["pid"] != gone],))
            return listed.get("orphaned_workers")
        self.assertTrue(wait_until(orphans))
        pids = [orphan["pid"] for orphan in orphans()]
        self.assertEqual(len(pids), 2)
        text = self.dlprobe("ps").stdout.decode()
        self.assertIn(f"workers without a trainer: 2, the oldest of {getpass.getuser()} started", text)
        self.assertRegex(text, f"dlprobe attach ({pids[0]}|{pids[1]})")
        self.assertIn(f"kill {pids[0]} {pids[1]}", text)

    def test_ranks_are_one_job_with_the_id_of_its_run(self):
        launcher = self.start("launch.py", LAUNCHER)
        self.start("train.py", FORKING_JOB, WORKERS)
        job = next(each for each in self.jobs() if each["pid"] == launcher)
        self.assertEqual((job["ranks"], job["workers"], job["job_ids"]), (2, 0, ["run-of-june"]))
        self.assertEqual(self.attached("run-of-june")[0], launcher)

    def test_secrets_are_masked_and_control_characters_inert(self):
        secret = "hf_" + "abcdefghijklmnopqrstuvwxyz0123456789"
        self.start("train.py", FORKING_JOB, WORKERS, f"--token={secret}", "\x1b[31m\u202eevil\nline")
        for arguments in (["ps"], ["attach", "--for", "0s", "--json"], ["ps", "--json"]):
            done = self.dlprobe(*arguments)
            self.assertNotIn(secret.encode(), done.stdout + done.stderr)
            self.assertNotIn(b"\x1b", done.stdout + done.stderr)
        self.assertIn("--token=***", self.dlprobe("ps").stdout.decode())

    def test_what_another_user_has_is_not_taken(self):
        self.start("train.py", FORKING_JOB, WORKERS)
        if self.dlprobe("--version", user=NOBODY).returncode != 0:
            self.skipTest("needs a dlprobe that every user may run: build it outside of a private folder")
        done = self.dlprobe("attach", "--for", "0s", user=NOBODY)
        self.assertEqual((done.returncode, done.stdout), (3, b""), done.stderr)
        self.assertIn(b"of other users may not be looked into: run dlprobe as root", done.stderr)


if __name__ == "__main__":
    unittest.main()
