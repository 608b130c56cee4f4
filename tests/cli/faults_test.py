"""The reference loader's hangs under dlprobe deadlock: each gives its finding, its healthy twin none.

    faults_test.py [-v] [CLASS ...]
"""

import os
import re
import signal
import subprocess
import time
import unittest

from support import DLPROBE, HAS_LOADER, TIMEOUT, dlprobe, report_of

LIMIT_S = 60
# In the environment of all that is started here, and so of what that starts.
MARK = f"DLPROBE_TEST_MARK={os.getpid()}"

# The fault, its finding, severity and confidence. What is told by a whole watch alone is a warning.
HANGS = [
    ("fork-inherited-lock", "DLP0301", "error", "certain"),
    ("fork-lost-thread-pool", "DLP0302", "error", "certain"),
    ("fork-lost-thread-pool:wait=spinning", "DLP0302", "error", "certain"),
    ("lock-cycle", "DLP0303", "error", "certain"),
    ("lock-holder-dead", "DLP0304", "error", "certain"),
    ("pipe-without-peer", "DLP0308", "error", None),  # certain only without a helper thread
    ("worker-stopped:worker=1", "DLP0311", "error", "certain"),
    ("slow-sample", "DLP0313", "warning", "likely"),
    ("consumer-stuck", "DLP0314", "warning", "likely"),
]
OF_FORK = ("fork-inherited-lock", "fork-lost-thread-pool")


def descendants():
    """What this test started, however far away it is by now: {pid: state}. Zombies do not count."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if MARK.encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/stat", encoding="latin1") as file:
                found[int(pid)] = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
    return {pid: state for pid, state in found.items() if state not in "ZX"}


def wait_until(condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@unittest.skipUnless(HAS_LOADER, "built without the reference loader: -DDLPROBE_REFERENCE_LOADER=ON")
class Base(unittest.TestCase):
    def setUp(self):
        os.environ.update([MARK.split("=")])
        self.files = set(os.listdir("/dev/shm"))

    def tearDown(self):
        self.assertTrue(wait_until(lambda: not descendants()), descendants())
        # Segments are called torch_PID_...; those of living processes are other jobs'.
        left = {name for name in set(os.listdir("/dev/shm")) - self.files if name.startswith("torch_")}
        self.assertEqual({n for n in left if not os.path.exists("/proc/" + n.split("_")[1])}, set())

    def check_hangs(self, strategy, method="fork", hangs=HANGS):
        for fault, code, severity, confidence in hangs:
            with self.subTest(fault=fault, strategy=strategy, method=method):
                report = report_of("deadlock", "--fault", fault, "--sharing-strategy", strategy,
                                   "--start-method", method)
                found = [(f["code"], f["severity"], f["confidence"]) for f in report["findings"]]
                self.assertEqual(len(found), 1, found)
                self.assertEqual(found[0][:2], (code, severity))
                self.assertIn(confidence, (None, found[0][2]))
                self.assertRegex(report["runs"][0]["end"]["text"], "no progress .* and dlprobe ended it")


class FileDescriptor(Base):
    def test_each_hang_gives_its_finding_alone(self):
        self.check_hangs("file_descriptor")

    def test_under_spawn_and_forkserver_what_fork_copies_does_no_harm(self):
        for fault in OF_FORK:
            done = dlprobe("deadlock", "--fault", fault, "--start-method", "all")
            text = done.stdout.decode()
            self.assertEqual(done.returncode, 1, text)
            rows = re.findall(r"^  (fork|spawn|forkserver) +file_descriptor +(\S+)", text, re.M)
            self.assertEqual(rows, [("fork", fault), ("spawn", "nothing"), ("forkserver", "nothing")])

    def test_without_a_fault_nothing_is_stuck(self):
        done = dlprobe("deadlock", "--start-method", "all", "--sharing-strategy", "all")
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        self.assertTrue(done.stdout.startswith(b"PASS  "))
        self.assertEqual(len(re.findall(rb"^  (?:fork|spawn|forkserver) .* nothing ", done.stdout, re.M)), 6)

    def test_a_sample_that_is_slow_for_a_while_lets_the_run_end(self):
        report = report_of("deadlock", "--fault", "slow-sample:seconds=4", "--start-method", "fork")
        self.assertEqual(report["summary"]["verdict"], "pass")
        self.assertEqual(report["runs"][0]["end"], {"reason": "subject-ended", "text": ""})

    def test_an_impossible_fault_is_a_usage_error(self):
        for arguments, said in ((["lock-cycle", "--workers", "0"], b"reference loader"),
                                (["lock-cycle:worker=2"], b"reference loader"),
                                (["gil-held-while-blocked"], b"reference loader can make; it can make: shm-too-small"),
                                (["consumer-stuck:worker=0"], b"not a parameter of consumer-stuck; give KEY=VALUE")):
            with self.subTest(arguments):
                done = dlprobe("deadlock", "--fault", *arguments)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, b"")
                self.assertIn(said, done.stderr)

    def test_nothing_is_left_when_dlprobe_is_stopped_or_killed_in_the_middle(self):
        for method in ("fork", "forkserver"):
            for number in (signal.SIGINT, signal.SIGKILL):
                with self.subTest(method=method, signal=number), subprocess.Popen(
                        [DLPROBE, "deadlock", "-q", "--fault", "worker-stopped", "--start-method", method],
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                    self.assertTrue(wait_until(lambda: "T" in descendants().values()))
                    process.send_signal(number)
                    process.wait(TIMEOUT)
                    self.assertTrue(wait_until(lambda: not descendants()), descendants())


class FileSystem(Base):
    def test_each_hang_gives_its_finding_alone(self):
        self.check_hangs("file_system")

    def test_what_needs_no_fork_hangs_under_every_start_method(self):
        for method in ("spawn", "forkserver"):
            self.check_hangs("file_descriptor", method,
                             [hang for hang in HANGS if hang[0].partition(":")[0] not in OF_FORK])


if __name__ == "__main__":
    unittest.main()
