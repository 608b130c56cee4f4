"""--confirm: the command runs again with what its remedies set; confirmed, not helped, or not proven, and why."""

import os
import resource
import subprocess
import sys
import tempfile
import unittest

from support import DLPROBE, NEEDS_UNSHARE, TIMEOUT, can_unshare, children, dlprobe, report_of

# Keeps files open until it has a hundred, and stays for a few samples, also when it has failed.
OPENS_FILES = """
import sys, time
kept = []
try:
    for i in range(100):
        kept.append(open("/proc/self/status", "rb"))
except OSError:
    time.sleep(1.5)
    sys.exit(1)
time.sleep(1.5)
"""
# Leaks whatever its limit is.
OPENS_WITHOUT_END = OPENS_FILES.replace("range(100)", "range(100000)")
# Opens too many only when a marker file is not there yet: the first run fails, all others do not.
FAILS_ONCE = """
import os, sys
marker = sys.argv[1]
if os.path.exists(marker): sys.exit(0)
open(marker, "w").close()
""" + OPENS_FILES

WRITES_48_MIB = """
import os, time
with open("/dev/shm/dlprobe-confirm-test", "wb", buffering=0) as segment:
    memory = memoryview(b"x" * (1 << 20))
    for _ in range(48):
        if segment.write(memory) != len(memory): os._exit(1)
    time.sleep(1)
"""

LAMBDA_TARGET = """
import multiprocessing
{prepare}
if __name__ == "__main__":
    process = {context}.Process(target=lambda: None)
    process.start()
    process.join()
"""


def confirmations(report):
    return [remedy["confirmed"] for remedy in report["findings"][0]["remediation"] if "confirmed" in remedy]


def soft_limit_of_64():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))


def script(folder, text):
    path = os.path.join(folder, "script.py")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


class Confirm(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(children(), [])

    def one(self, report):
        """The one confirmation of a remedy."""
        found = confirmations(report)
        self.assertEqual(len(found), 1, report["findings"])
        return found[0]

    def test_a_higher_soft_limit_is_confirmed(self):
        report = report_of("fd", "--confirm=1", "--", sys.executable, "-c", OPENS_FILES, preexec_fn=soft_limit_of_64)
        self.assertEqual(report["findings"][0]["code"], "DLP0202")
        confirmed = self.one(report)
        self.assertEqual(confirmed["outcome"], "confirmed", confirmed)
        self.assertIn("the failure is gone (exit code 0", confirmed["text"])
        self.assertEqual([run["failed_alike"] for run in confirmed["without"]], [True, True])
        self.assertEqual([run["failed_alike"] for run in confirmed["with_it"]], [False])

    def test_a_hard_limit_stays(self):
        report = report_of("fd", "--confirm=1", "--limit-fds", 64, "--", sys.executable, "-c", OPENS_FILES)
        confirmed = self.one(report)
        self.assertEqual(confirmed["outcome"], "inconclusive")
        self.assertIn("not tried with a soft limit of", confirmed["text"])
        self.assertIn("hard limit of 64", confirmed["text"])
        self.assertEqual(len(confirmed["without"]), 1)

    def test_what_does_not_help_is_said(self):
        report = report_of("fd", "--confirm=1", "--", sys.executable, "-c", OPENS_WITHOUT_END,
                           preexec_fn=soft_limit_of_64)
        confirmed = self.one(report)
        self.assertEqual(confirmed["outcome"], "not-helped", confirmed)
        self.assertIn("this did not help", confirmed["text"])

    def test_a_failure_that_does_not_come_again_proves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            report = report_of("fd", "--confirm=1", "--", sys.executable, "-c", FAILS_ONCE, f"{folder}/marker",
                               preexec_fn=soft_limit_of_64)
        confirmed = self.one(report)
        self.assertEqual(confirmed["outcome"], "inconclusive", confirmed)
        self.assertIn("it came in only 1 run of 2", confirmed["text"])

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_larger_shm_is_confirmed(self):
        report = report_of("shm", "--confirm=1", "--shm-size", "32m", "--", sys.executable, "-c", WRITES_48_MIB)
        found = confirmations(report)
        self.assertTrue(found, report["findings"])
        self.assertEqual({each["outcome"] for each in found}, {"confirmed"}, found)
        self.assertIn("with a /dev/shm of", found[0]["text"])

    def test_fork_is_confirmed_for_what_cannot_be_pickled(self):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, LAMBDA_TARGET.format(prepare="", context="multiprocessing"))
            report = report_of("spawn-recursion", "--confirm=1", "--start-method", "spawn", "--", sys.executable, path)
        self.assertEqual(report["findings"][0]["code"], "DLP0402")
        confirmed = self.one(report)
        self.assertEqual(confirmed["outcome"], "confirmed", confirmed)
        self.assertIn("start method fork", confirmed["text"])

    def test_what_a_script_names_itself_is_overridden(self):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, LAMBDA_TARGET.format(prepare='own = multiprocessing.get_context("spawn")', context="own"))
            report = report_of("spawn-recursion", "--confirm=1", "--start-method", "spawn", "--", sys.executable, path)
        confirmed = self.one(report)
        self.assertEqual(confirmed["outcome"], "confirmed", confirmed)

    def test_a_command_that_starts_nothing_under_that_method_proves_nothing(self):
        """It starts its process the first time alone."""
        once = "import os, sys\nif os.path.exists(sys.argv[1]): sys.exit()\nif __name__ == '__main__': open(sys.argv[1], 'w').close()\n"
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, once + LAMBDA_TARGET.format(prepare="", context="multiprocessing"))
            report = report_of("spawn-recursion", "--confirm=1", "--start-method", "spawn", "--", sys.executable, path,
                               f"{folder}/marker")
        confirmed = self.one(report)
        self.assertEqual(confirmed["outcome"], "inconclusive", confirmed)
        self.assertIn("this did not take effect", confirmed["text"])

    def test_the_same_of_two_start_methods_is_tried_for_both(self):
        """A finding of both trials is one, and what repeats a trial repeats its own."""
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, LAMBDA_TARGET.format(prepare="", context="multiprocessing"))
            report = report_of("spawn-recursion", "--confirm=1", "--", sys.executable, path)
        self.assertEqual([run["failed_alike"] for run in self.one(report)["without"]], [True, True])

    def test_each_is_repeated_as_often_as_asked(self):
        for option, times in (("--confirm=2", (2,)), ("--confirm", (1, 2, 3))):
            report = report_of("fd", option, "--", sys.executable, "-c", OPENS_FILES, preexec_fn=soft_limit_of_64)
            confirmed = self.one(report)
            self.assertEqual(confirmed["outcome"], "confirmed", confirmed)
            self.assertIn(len(confirmed["with_it"]), times)
            self.assertEqual(len(confirmed["without"]), len(confirmed["with_it"]) + 1)

    def test_replay_says_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            recording = f"{folder}/confirm.dlrec"
            live = report_of("fd", "--confirm", "--record", recording, "--", sys.executable, "-c", OPENS_FILES,
                             preexec_fn=soft_limit_of_64)
            replayed = report_of("replay", recording)
        self.assertEqual(live["findings"], replayed["findings"])
        self.assertEqual(len(replayed["runs"]), 1)

    def test_streams_and_exit_code_are_those_of_the_first_run(self):
        program = OPENS_FILES.replace("sys.exit(1)", "print('once', flush=True); sys.exit(7)")
        done = dlprobe("run", "--confirm=1", "--", sys.executable, "-c", program, preexec_fn=soft_limit_of_64)
        self.assertEqual((done.returncode, done.stdout), (7, b"once\n"), done.stderr.decode())
        self.assertIn(b"confirmed: with", done.stderr)

    def test_nothing_runs_again_where_nothing_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = f"{folder}/runs"
            done = dlprobe("fd", "--confirm=1", "--", "sh", "-c", f"echo run >> {runs}; sleep 0.5")
            with open(runs, encoding="ascii") as file:
                self.assertEqual(file.read(), "run\n", done.stderr.decode())

    def test_it_needs_a_command(self):
        for arguments in (["shm", "--pid", os.getpid(), "--confirm"], ["fd", "--confirm"],
                          ["fd", "--confirm=0", "--", "true"], ["fd", "--confirm=many", "--", "true"],
                          ["spawn-recursion", "--static", "--confirm", "--", sys.executable, "-c", "pass"]):
            done = subprocess.run([DLPROBE, *map(str, arguments)], capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertIn(b"--confirm", done.stderr)


if __name__ == "__main__":
    unittest.main()
