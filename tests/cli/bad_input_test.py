"""Bad input: one clear line on stderr, the documented exit code, nothing left behind."""

import os
import signal
import subprocess
import tempfile
import unittest

from support import (DLPROBE, HAS_LOADER, NEEDS_UNSHARE, TIMEOUT, can_unshare, children, dlprobe,
                     in_private_shm)

# Arguments, exit code, what the line has to say.
REFUSED = [
    (["--no-such-option"], 2, "--no-such-option"),
    (["no-such-command"], 2, "no-such-command"),
    (["shm", "--no-such-option"], 2, "--no-such-option"),
    (["shm", "python", "train.py"], 2, "behind --"),
    (["shm", "--workers", "-1"], 2, "--workers"),
    (["shm", "--workers", "100000"], 2, "--workers"),
    (["shm", "--workers", "two"], 2, "--workers: 'two' is not a whole number"),
    (["shm", "--workers"], 2, "--workers"),
    (["shm", "--batch-size", "0"], 2, "--batch-size"),
    (["shm", "--batch-size", "99999999999999999999"], 2, "--batch-size"),
    (["shm", "--prefetch-factor", "0"], 2, "--prefetch-factor"),
    (["shm", "--sample-shape", "3x"], 2, "--sample-shape '3x' is not a shape"),
    (["shm", "--sample-shape", "3x-1x5"], 2, "--sample-shape"),
    (["shm", "--sample-shape", "224x224"], 2, "2 numbers instead of 3"),
    (["shm", "--batch-size", "1048576", "--sample-shape", "3x4096x4096"], 2, "1 TiB"),
    (["shm", "--dtype", "complex"], 2, "--dtype"),
    (["shm", "--start-method", "thread"], 2, "--start-method"),
    (["shm", "--sharing-strategy", "both"], 2, "--sharing-strategy"),
    (["shm", "--interval", "0ms"], 2, "--interval"),
    (["shm", "--interval", "5"], 2, "'5' is not a duration"),
    (["shm", "--for", "-3s"], 2, "is not a duration"),
    (["shm", "--fault", "no-such-fault"], 2, "it can make: shm-too-small"),
    (["deadlock", "--fault", "nonsense"], 2, "fork-inherited-lock, fork-lost-thread-pool"),
    (["deadlock", "--fault", "slow-sample:colour=red"], 2, "KEY=VALUE with one of: after, worker"),
    (["shm", "--fault", "shm-leak", "--pid", "1"], 2, "--fault"),
    (["shm", "--pid", "0"], 2, "--pid"),
    (["deadlock", "--pid", ""], 2, "--pid needs a process id"),
    (["shm", "--pid", "-7"], 2, "--pid"),
    (["shm", "--pid", "999999999"], 2, "there is no process 999999999"),
    (["shm", "--pid", "1", "--", "true"], 2, "give either --pid or a command"),
    (["shm", "--"], 2, "no command"),
    (["shm", "--", "no-such-command-anywhere"], 127, "no-such-command-anywhere"),
    (["shm", "--", "/etc/passwd"], 126, "/etc/passwd"),
    (["shm", "--", "/"], 126, "run /"),
    (["shm", "-f", "pdf", "--", "true"], 2, "no format 'pdf'"),
    (["shm", "-f", "json=", "--", "true"], 2, "path"),
    (["shm", "-f", "json", "-f", "human", "--", "true"], 2, "two reports"),
    (["shm", "-f", "json=/no/such/folder/r.json", "--", "true"], 2, "/no/such/folder"),
    (["shm", "-o", "/", "--", "true"], 2, "/"),
    (["shm", "--record", "/no/such/folder/r.dlrec", "--", "true"], 2, "/no/such/folder"),
    (["shm", "--fail-on", "everything"], 2, "--fail-on"),
    (["shm", "--pid", "1x"], 2, "'1x' is not a process id"),
    (["tune", "--workers", "2,x"], 2, "'x' is not a whole number from 0 to 1024"),
    (["tune", "--workers", "2,,4"], 2, "'' is not a whole number"),
    (["tune", "--workers", "-1"], 2, "--workers"),
    (["tune", "--prefetch-factor", "0"], 2, "'0' is not a whole number from 1 to 1024"),
    (["tune", "--start-method", "fork,thread"], 2, "'thread' is none of fork, spawn, forkserver, all"),
    (["tune", "--for", "0s"], 2, "more than 0s"),
    (["tune", "--for", "60"], 2, "'60' is not a duration"),
    (["tune", "--fault", "shm-leak"], 2, "thread-oversubscription alone"),
    (["tune", "--sharing-strategy", "all"], 2, "--sharing-strategy"),
    (["tune", "--sample-shape", "3x"], 2, "--sample-shape"),
    (["tune", "python", "train.py"], 2, "behind --"),
    (["tune", "--"], 2, "no command after --"),
    (["tune", "--", "no-such-command-anywhere"], 127, "no-such-command-anywhere"),
    (["tune", "--", "/etc/passwd"], 126, "/etc/passwd"),
    (["tune", "--", "true"], 3, "made no PyTorch DataLoader"),
    (["tune", "--", "python3", "-I", "train.py"], 2, "-I, which ignores PYTHONPATH"),
    (["tune", "--fault", "thread-oversubscription", "--", "true"], 2, "--fault works only on the reference loader"),
    (["attach", "--job"], 2, "SLURM_JOB_ID"),
    (["attach", "--job", "1"], 2, "give no PID"),
    (["attach", ""], 2, "is not a process id"),
    (["attach", "0"], 2, "'0' is not a process id"),
    (["attach", "-7"], 2, "'-7' is not a process id"),
    (["attach", "no-such-job-anywhere"], 2, "no job"),
    (["attach", "4.5"], 2, "is not a process id"),
    (["attach", "99999999999"], 2, "is not a process id"),
    (["attach", "999999999"], 2, "there is no process 999999999"),
    (["attach", "1", "2"], 2, "no use for '2'"),
    (["attach", "1", "--for", "5"], 2, "'5' is not a duration"),
    (["attach", "1", "--max-pause", "2s"], 2, "--max-pause 2s is more than 1s"),
    (["attach", "1", "--max-pause", "1ms", "--no-pause"], 2, "--no-pause"),
    (["attach", "1", "-f", "pdf"], 2, "no format 'pdf' (human, json,"),
    (["attach", "1", "--", "true"], 2, "dlprobe deadlock -- COMMAND"),
    (["stacks"], 2, "pid"),
    (["stacks", "0"], 2, "'0' is not a process id"),
    (["stacks", "-7"], 2, "'-7' is not a process id"),
    (["stacks", "trainer"], 2, "'trainer' is not a process id"),
    (["stacks", "999999999"], 2, "there is no process 999999999"),
    (["stacks", "1", "-f", "dot"], 2, "no format 'dot' (human, json)"),
    (["stacks", "1", "--max-pause", "x"], 2, "'x' is not a duration"),
    (["deadlock", "--pid", "0"], 2, "--pid"),
    (["deadlock", "--max-pause", "1h"], 2, "--max-pause"),
    (["replay"], 2, "recording"),
    (["replay", "/no/such/file"], 2, "/no/such/file"),
    (["replay", "/"], 2, "/"),
    (["replay", "/etc/passwd"], 2, "/etc/passwd"),
    (["replay", "/dev/null"], 2, "/dev/null"),
    (["explain", "DLP9999"], 2, "DLP9999"),
    (["explain"], 2, "finding"),
]


class BadInput(unittest.TestCase):
    def assert_refused(self, done, exit_code, words):
        text = done.stderr.decode()
        self.assertEqual(done.returncode, exit_code, text)
        self.assertIn(words, text)
        self.assertEqual(done.stdout, b"", "a refusal has nothing to say on stdout")
        self.assertEqual(text.count("\n"), 1, f"more than one line: {text!r}")
        self.assertTrue(text.startswith("dlprobe: "), text)
        self.assertEqual(children(), [], "something was left behind")

    def test_refusals(self):
        for arguments, exit_code, words in REFUSED:
            with self.subTest(arguments=arguments):
                self.assert_refused(dlprobe(*arguments), exit_code, words)

    def test_hostile_text_in_a_refusal_is_escaped(self):
        done = dlprobe("explain", "\x1b[31mred\u202e")
        self.assertNotIn(b"\x1b", done.stderr)
        self.assertIn(rb"\x1b[31mred\u{202e}", done.stderr)

    def test_a_kernel_thread(self):
        if os.path.exists("/proc/2/exe") or not os.path.exists("/proc/2"):
            self.skipTest("pid 2 is not a kernel thread here: run outside of a pid namespace")
        for arguments in (["shm", "--pid", 2], ["attach", 2], ["stacks", 2]):
            with self.subTest(arguments=arguments):
                self.assert_refused(dlprobe(*arguments), 2, "kernel thread")

    def test_dlprobe_itself(self):
        for command in ("attach", "stacks"):
            script = f'exec "$0" {command} $$'
            done = subprocess.run(["sh", "-c", script, DLPROBE], capture_output=True, timeout=TIMEOUT, check=False)
            self.assert_refused(done, 2, "dlprobe itself")

    def test_a_process_that_has_ended(self):
        ended = subprocess.Popen(["true"])
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        self.addCleanup(ended.wait)
        for arguments in (["shm", "--pid", ended.pid], ["attach", ended.pid], ["stacks", ended.pid]):
            with self.subTest(arguments=arguments):
                done = dlprobe(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(str(ended.pid).encode(), done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs two users: run as root")
    def test_a_process_of_somebody_else(self):
        for arguments in (["shm", "--pid"], ["deadlock", "--pid"], ["attach"], ["stacks"]):
            with self.subTest(arguments=arguments), subprocess.Popen(["sleep", "100"]) as target:
                done = subprocess.run(
                    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", DLPROBE, *arguments,
                     str(target.pid)], capture_output=True, timeout=TIMEOUT, check=False)
                target.send_signal(signal.SIGKILL)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(str(target.pid).encode(), done.stderr)
                self.assertIn(b"it belongs to user id 0, dlprobe runs as user id 65534", done.stderr)
                self.assertIn(f"what would help: sudo dlprobe attach {target.pid}".encode(), done.stderr)
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    @unittest.skipUnless(HAS_LOADER, "the reference loader was not built: needs libtorch-dev and libopencv-dev")
    def test_a_data_folder_without_images(self):
        with tempfile.TemporaryDirectory() as folder:
            done = dlprobe("shm", "--data", folder, "--start-method", "fork", "--sharing-strategy",
                           "file_descriptor")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(folder.encode(), done.stderr)
        self.assertEqual(done.stdout, b"")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_no_dev_shm(self):
        done = in_private_shm("mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3", ["shm", "--", "true"])
        self.assertEqual(done.returncode, 3, done.stdout.decode() + done.stderr.decode())
        self.assertIn(b"/dev/shm", done.stdout)

    def test_a_full_disk_gets_no_half_report(self):
        with open("/dev/full", "wb") as full:
            done = dlprobe("shm", "--json", "--", "true", stdout=full)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"No space left", done.stderr)

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_report_on_a_full_disk_is_whole_or_absent(self):
        with tempfile.TemporaryDirectory() as folder:
            # 16 KiB: less than a report and what it is written beside.
            setup = (f"mount -t tmpfs -o size=16k tmpfs {folder} && echo old > {folder}/report.json && "
                     f"head -c 8192 /dev/zero > {folder}/filler")
            done = in_private_shm(
                setup + f' && "$0" "$@"; code=$?; cat {folder}/report.json; ls {folder} >&2; exit $code; true',
                ["shm", "-f", f"json={folder}/report.json", "-q", "--", "true"])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertTrue(done.stdout.endswith(b"old\n"), done.stdout)
        self.assertTrue(done.stderr.endswith(b"filler\nreport.json\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
