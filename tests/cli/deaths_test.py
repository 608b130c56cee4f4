"""The faults that end a worker: the wait status in the report is that of a process that really ended so."""

import os
import subprocess
import sys
import unittest

from support import DLPROBE, HAS_LOADER, TIMEOUT, children, dlprobe, report_of

SMALL = ("--sample-shape", "3x32x32", "--batch-size", "4")
# Fault, what the report says of how the worker ended.
DEATHS = [
    ("worker-crashed", {"signal": 11}),
    ("worker-crashed:signal=abrt", {"signal": 6}),
    ("worker-crashed:signal=fpe", {"signal": 8}),
    ("worker-exited", {"exit_code": 3}),
    ("worker-exited:code=255", {"exit_code": 255}),
    ("killed-by-signal", {"signal": 9}),
    ("killed-by-signal:signal=term", {"signal": 15}),
]
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@unittest.skipUnless(HAS_LOADER, "the reference loader was not built: needs libtorch-dev and libopencv-dev")
class Deaths(unittest.TestCase):
    def check(self, fault, wanted, method="fork"):
        report = report_of("shm", "--fault", fault, "--start-method", method, *SMALL)
        ends = [process["exit"] for process in report["processes"] if process["role"] == "worker"]
        self.assertEqual(len(ends), 2, report["processes"])
        matching = [end for end in ends if wanted.items() <= end.items()]
        self.assertEqual(len(matching), 1, ends)
        [trainer] = [process for process in report["processes"] if process["role"] == "trainer"]
        self.assertEqual(trainer["exit"]["exit_code"], 1, trainer)
        self.assertEqual(children(), [])

    def test_under_fork(self):
        for fault, wanted in DEATHS:
            with self.subTest(fault):
                self.check(fault, wanted)

    def test_under_the_other_start_methods(self):
        self.check("worker-crashed", {"signal": 11}, "spawn")
        self.check("worker-exited:code=9", {"exit_code": 9}, "forkserver")

    def test_out_of_memory_in_a_cgroup_of_its_own(self):
        done = dlprobe("shm", "-q", "--limit-memory", "64m", "--", "true")
        if done.returncode == 2:
            self.skipTest(f"no memory cgroup may be made here: {done.stderr.decode()}")
        for method in ("fork", "forkserver"):
            with self.subTest(method):
                self.check("oom-killed-by-cgroup:worker=1", {"signal": 9}, method)

    def test_the_cgroup_is_the_fault_s_own_matter(self):
        done = dlprobe("shm", "--fault", "oom-killed-by-cgroup", "--limit-memory", "1g")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"oom-killed-by-cgroup:limit=SIZE", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs two users: run as root")
    def test_without_the_right_to_a_cgroup_it_is_refused(self):
        if subprocess.run([*AS_NOBODY, DLPROBE, "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("the build folder is not readable for nobody")
        done = subprocess.run([*AS_NOBODY, DLPROBE, "shm", "--fault", "oom-killed-by-cgroup"], capture_output=True,
                              timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"needs", done.stderr)
        self.assertEqual((done.stdout, done.stderr.count(b"\n")), (b"", 1))


if __name__ == "__main__":
    sys.exit(unittest.main())
