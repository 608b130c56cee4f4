"""The reference loader's hangs under dlprobe deadlock: each gives its finding, its healthy twin none.

    faults_test.py [-v] [CLASS ...]
"""

import itertools
import os
import re
import signal
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

from support import DLPROBE, HAS_LOADER, TIMEOUT, dlprobe, report_of, wait_until

# In the environment of all that is started here, and so of what that starts.
MARK = f"DLPROBE_TEST_MARK={os.getpid()}"

# The fault, its finding, severity and confidence. What is told by a whole watch alone is a warning; the longest first.
HANGS = [
    ("consumer-stuck", "DLP0314", "warning", "likely"),
    ("slow-sample", "DLP0313", "warning", "likely"),
    ("fork-inherited-lock", "DLP0301", "error", "certain"),
    ("fork-lost-thread-pool", "DLP0302", "error", "certain"),
    ("fork-lost-thread-pool:wait=spinning", "DLP0302", "error", "certain"),
    ("lock-cycle", "DLP0303", "error", "certain"),
    ("lock-holder-dead", "DLP0304", "error", "certain"),
    ("pipe-without-peer", "DLP0308", "error", None),  # certain only without a helper thread
    ("worker-stopped:worker=1", "DLP0311", "error", "certain"),
]
# Whom the fault kills is told as well, if it was seen before: on a busy machine it may be gone by then.
KILLING = ("lock-holder-dead", "pipe-without-peer")
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


def at_once(run, each):
    """What each run gives. Most of its time it waits, so that three do not disturb one another."""
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda arguments: run(*arguments), each))


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
        reports = at_once(report_of, [("deadlock", "--fault", fault, "--sharing-strategy", strategy, "--start-method", method)
                                      for fault, *_ in hangs])
        for (fault, code, severity, confidence), report in zip(hangs, reports):
            with self.subTest(fault=fault, strategy=strategy, method=method):
                found = [(f["code"], f["severity"], f["confidence"]) for f in report["findings"]]
                beside = [("DLP0503", "info")] if fault in KILLING else []
                self.assertIn([each[:2] for each in found[1:]], ([], beside), found)
                self.assertEqual(found[0][:2], (code, severity))
                self.assertEqual(report["summary"]["verdict"], "fail" if severity == "error" else "warn")
                self.assertIn(confidence, (None, found[0][2]))
                self.assertRegex(report["runs"][0]["end"]["text"], "no progress .*; dlprobe ended it")


class FileDescriptor(Base):
    def test_each_hang_gives_its_finding_alone(self):
        self.check_hangs("file_descriptor")

    def test_under_spawn_and_forkserver_what_fork_copies_does_no_harm(self):
        runs = at_once(dlprobe, [("deadlock", "--fault", fault, "--start-method", "all") for fault in OF_FORK])
        for fault, done in zip(OF_FORK, runs):
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
        for method, number in (("fork", signal.SIGINT), ("forkserver", signal.SIGKILL)):
            with self.subTest(method=method, signal=number), subprocess.Popen(
                    [DLPROBE, "deadlock", "-q", "--fault", "worker-stopped", "--start-method", method],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                self.assertTrue(wait_until(lambda: "T" in descendants().values()))
                process.send_signal(number)
                process.wait(TIMEOUT)
                self.assertTrue(wait_until(lambda: not descendants()), descendants())


class Memory(Base):
    """What grows in the reference loader, under dlprobe memory. Small samples: the growth is what is looked at."""

    ARGS = ("--sample-shape", "3x64x64", "--batch-size", "16")

    def check_grows(self, fault, code, *more):
        report = report_of("memory", "--fault", fault, *self.ARGS, *more)
        self.assertEqual([finding["code"] for finding in report["findings"]], [code])
        return {fact["name"]: fact.get("value") for fact in report["findings"][0]["evidence"]}

    def test_pages_that_fork_shared_are_copied(self):
        facts = self.check_grows("copy-on-write-growth:size=128m,rate=16m", "DLP0504")
        self.assertGreater(facts["copied"], 32 << 20)

    def test_a_worker_leaks(self):
        facts = self.check_grows("worker-memory-leak", "DLP0505")
        self.assertAlmostEqual(facts["growth"] / (16 << 20), 1, delta=0.1)

    def test_without_a_fault_and_under_spawn_nothing_grows(self):
        for arguments in (("--start-method", "fork"),
                          ("--start-method", "spawn", "--fault", "copy-on-write-growth:size=128m,seconds=5")):
            report = report_of("memory", *self.ARGS, *arguments)
            self.assertEqual((report["summary"]["verdict"], report["findings"]), ("pass", []))


class Backlog(Memory):
    """The slow one, of batches of the usual size: each keeps two descriptors."""

    ARGS = ()
    test_pages_that_fork_shared_are_copied = test_a_worker_leaks = None
    test_without_a_fault_and_under_spawn_nothing_grows = None

    def test_batches_pile_up(self):
        facts = self.check_grows("prefetch-backlog", "DLP0506")
        self.assertGreater(facts["waiting"], 256 << 20)


class Descriptors(Base):
    SMALL = ("--sample-shape", "3x32x32", "--start-method")

    def test_each_fault_gives_its_finding_under_every_start_method(self):
        codes = {"fd-leak-in-worker:limit=256,count=2": "DLP0204", "batches-kept-by-consumer:limit=96": "DLP0203"}
        runs = list(zip(itertools.cycle(codes), ("fork", "spawn", "forkserver", "fork")))
        reports = at_once(report_of, [("fd", "--fault", fault, *self.SMALL, method) for fault, method in runs])
        for (fault, method), report in zip(runs, reports):
            with self.subTest(fault=fault, method=method):
                code = codes[fault]
                found = [(f["code"], f["severity"], f.get("consequence_of")) for f in report["findings"]]
                self.assertEqual(found, [(code, "error", None), ("DLP0202", "error", code)])
                # That the last one was opened a busy machine may not see.
                self.assertEqual(report["findings"][0]["confidence"], "certain")
                facts = {fact["name"]: fact["value"] for fact in report["findings"][0]["evidence"]}
                self.assertGreater(facts["growth_per_batch"], 0.5)

    def test_without_a_fault_nothing_runs_out(self):
        done = dlprobe("fd", "--start-method", "all")
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    def test_a_limit_that_is_too_low_is_told_before_the_start(self):
        done = subprocess.run(["sh", "-c", 'ulimit -S -n 64; exec "$0" fd --workers 16 --json', DLPROBE],
                              capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b'"DLP0201"', done.stdout)
        self.assertIn(b'"not-started"', done.stdout)


class Starts(Base):
    """How workers are started, side by side: what breaks where they are not forked, and how it works where they are."""

    SMALL = ("--sample-shape", "3x32x32", "--batch-size", "4")
    METHODS = ("fork", "spawn", "forkserver")

    def check(self, fault, code, severity, *more):
        report = report_of("spawn-recursion", "--fault", fault, *self.SMALL, *more)
        found = [(f["code"], f["severity"], f["confidence"], f["runs"]) for f in report["findings"]]
        confidence = "likely" if code == "DLP0409" else "certain"
        self.assertEqual(found, [(code, severity, confidence, [1, 2])])
        self.assertEqual([run["plan"]["start_method"] for run in report["runs"]], list(self.METHODS))
        broken = "breaks" if severity == "error" else "works"
        self.assertEqual([run["trial"]["outcome"] for run in report["runs"]], ["works", broken, broken])
        self.assertEqual([line for line in report["limitations"] if line["required"]], [])
        return {fact["name"]: fact.get("value") for fact in report["findings"][0]["evidence"]}, report

    def test_the_program_runs_again_without_a_guard(self):
        facts, _ = self.check("missing-main-guard", "DLP0401", "error")
        self.assertRegex(facts["statement"], r"^tools/reference_loader/loader\.cc:\d+$")

    def test_what_the_dataset_holds_cannot_be_sent(self):
        facts, report = self.check("unpicklable-object", "DLP0402", "error")
        self.assertEqual((facts["path"], facts["type"]), ("dataset.lock", "std::mutex"))
        self.assertEqual([run["trial"]["started"] for run in report["runs"]], [2, 0, 0])

    def test_each_worker_repeats_the_programs_own_work(self):
        facts, report = self.check("main-module-reimported:seconds=1,memory=32m", "DLP0406", "warning")
        self.assertGreater(facts["own_memory"], 16 << 20)
        self.assertEqual(["main_import_s" in run["trial"] for run in report["runs"]], [False, True, True])

    def test_a_recursion_is_ended_whole(self):
        _, report = self.check("recursive-process-creation", "DLP0409", "error", "--workers", "1")
        for run in report["runs"][1:]:
            self.assertRegex(run["end"]["text"], r"had \d+ generations of the same process; dlprobe ended it")

    def test_many_that_multiply_are_ended_before_they_are_many(self):
        report = report_of("spawn-recursion", "--fault", "recursive-process-creation", "--start-method", "spawn",
                           "--workers", "4", "--process-budget", "8", *self.SMALL)
        self.assertEqual([f["code"] for f in report["findings"]], ["DLP0409"])
        facts = {fact["name"]: fact.get("value") for fact in report["findings"][0]["evidence"]}
        self.assertLessEqual(facts["processes"], 8 + 4 + 8)

    def test_nothing_is_left_of_a_recursion_when_dlprobe_is_killed(self):
        for method in ("spawn", "forkserver"):
            with self.subTest(method), subprocess.Popen(
                    [DLPROBE, "spawn-recursion", "-q", "--fault", "recursive-process-creation", "--start-method",
                     method, *self.SMALL], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                self.assertTrue(wait_until(lambda: len(descendants()) > 6))
                process.kill()
                process.wait(TIMEOUT)
                self.assertTrue(wait_until(lambda: not descendants()), descendants())

    def test_without_a_fault_every_start_method_works(self):
        done = dlprobe("spawn-recursion", *self.SMALL)
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, text)
        self.assertTrue(text.startswith("PASS  nothing was refused under fork, spawn and forkserver"), text)
        rows = re.findall(r"^ +(fork|spawn|forkserver) +(\S+) +works +nothing +2 ", text, re.M)
        self.assertEqual(rows, [(method, "file_descriptor") for method in self.METHODS])

    def test_without_workers_nothing_can_be_said(self):
        done = dlprobe("spawn-recursion", "--workers", "0", "--start-method", "spawn", *self.SMALL)
        self.assertEqual(done.returncode, 3, done.stdout)
        done = dlprobe("spawn-recursion", "--workers", "0", "--fault", "missing-main-guard")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--workers 1", done.stderr)


class FileSystem(Base):
    def test_each_hang_gives_its_finding_alone(self):
        self.check_hangs("file_system")

    def test_what_needs_no_fork_hangs_under_every_start_method(self):
        for method in ("spawn", "forkserver"):
            self.check_hangs("file_descriptor", method,
                             [hang for hang in HANGS if hang[0].partition(":")[0] not in OF_FORK])


if __name__ == "__main__":
    unittest.main()
