"""dlprobe killed at a random instant, and its target: nobody is disturbed, and there is always a report.

    kill_test.py [--rounds N] [--seed N] [-v] [CLASS ...]
"""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from support import DLPROBE, can_unshare, small_shm, traced
from watched import LIMIT_S, Trees, Watched, tracer_of, until

LOOKS = [["attach", "--for", "0s"], ["attach", "--for", "0.3s"], ["stacks"]]
# Without time that is slept through: no harm is done in it.
BUSY_LOOKS = [["attach", "--for", "0s"], ["stacks"]]
VICTIMS = ["trainer", "worker", "all"]
JOBS = 3  # mostly asleep
OPTIONS = argparse.Namespace()


def command(look, pid, *more):
    return [DLPROBE, look[0], str(pid), *look[1:], *more]


class DlprobeIsKilled(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch = os.path.join(folder.name, "tmp")
        os.mkdir(self.scratch)
        self.watched = Watched(folder.name)
        self.addCleanup(self.watched.end)

    def start(self, look):
        return subprocess.Popen(command(look, self.watched.pids[0], "--json"), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env={**os.environ, "TMPDIR": self.scratch})

    def left_behind(self):
        left = os.listdir(self.scratch)
        if OPTIONS.private_shm:
            left += os.listdir("/dev/shm")
        return [f"{name} was left behind" for name in left]

    def length_of(self, look):
        """Of a look that nobody kills, in seconds."""
        lengths = []
        for _ in range(3):
            began = time.monotonic()
            self.start(look).wait(LIMIT_S)
            lengths.append(time.monotonic() - began)
        return statistics.median(lengths)

    def kill_once(self, look, length, at_stop, dice):
        """Whether a thread of the target was traced in that instant. A stop is a small part of a look: with
        `at_stop` the instant is random around the first one."""
        running = self.watched.running
        with self.start(look) as dlprobe:
            try:
                if at_stop:
                    until(lambda: dlprobe.poll() is not None or any(tracer_of(*thread) for thread in running))
                    time.sleep(dice.uniform(0, 0.001))
                else:
                    time.sleep(dice.uniform(0, length))
            finally:
                was_traced = any(tracer_of(*thread) for thread in running)
                dlprobe.kill()
        return was_traced

    def test_at_a_random_instant(self):
        dice = random.Random(OPTIONS.seed)
        lengths = [self.length_of(look) for look in BUSY_LOOKS]
        self.assertEqual(self.watched.disturbances() + self.left_behind(), [], "disturbed by a look that was not killed")
        in_a_stop = 0
        for number in range(OPTIONS.rounds):
            which = number % len(BUSY_LOOKS)
            in_a_stop += self.kill_once(BUSY_LOOKS[which], lengths[which], number % 4 < 2, dice)
            wrong = self.watched.disturbances() + self.left_behind()
            self.assertEqual(wrong, [], f"round {number} of seed {OPTIONS.seed}, {BUSY_LOOKS[which]}")
        print(f"seed {OPTIONS.seed}: dlprobe killed {OPTIONS.rounds} times, {in_a_stop} of them while it held a thread")
        self.assertGreater(in_a_stop, 0, "no instant was one that matters")


class TheEyeItself(unittest.TestCase):
    """Each kind of harm is seen where there is one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.watched = Watched(folder.name)
        self.addCleanup(self.watched.end)
        self.assertEqual(self.watched.disturbances(), [])

    def assert_sees(self, words):
        # Signals are on their way for a moment.
        self.assertTrue(until(lambda: words in "\n".join(self.watched.disturbances(limit_s=0.1))))

    def test_a_stopped_process(self):
        os.kill(self.watched.pids[2], signal.SIGSTOP)
        self.assert_sees("is in state 'T'")

    def test_a_stop_that_is_over(self):
        # The signals come one after the other: the thread that waits for its child has to see the stop.
        os.kill(self.watched.pids[1], signal.SIGSTOP)
        self.assert_sees("is in state 'T'")
        os.kill(self.watched.pids[1], signal.SIGCONT)
        self.assert_sees("came back")

    def test_a_process_that_is_traced(self):
        with traced(self.watched.pids[1]):
            self.assert_sees("is traced")

    def test_a_process_that_is_gone(self):
        os.kill(self.watched.pids[2], signal.SIGKILL)
        self.assert_sees("is in state ")


class TargetIsKilled(unittest.TestCase):
    def setUp(self):
        self.trees = Trees()
        self.addCleanup(self.trees.end)

    def look(self, look, victim=None, instant=0):
        """What is wrong with what dlprobe says of a tree of which `victim` is killed meanwhile, after `instant`
        seconds; and its exit code."""
        tree = self.trees.make()
        try:
            with subprocess.Popen(command(look, tree.pids[0], "--json"), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dlprobe:
                try:
                    if victim:
                        time.sleep(instant)
                        tree.kill(victim)
                    stdout, stderr = dlprobe.communicate(timeout=LIMIT_S)
                except subprocess.TimeoutExpired:
                    dlprobe.kill()
                    return f"hangs: for {LIMIT_S} s now", None
        finally:
            tree.end()
        code, said = dlprobe.returncode, f"exit {dlprobe.returncode}, {stderr!r}"
        if code == 2 and victim in ("trainer", "all"):
            # It was gone when dlprobe came.
            refusal = re.escape(str(tree.pids[0])).join((r"dlprobe: [^\n]*\b", r"\b[^\n]*\n"))
            return None if not stdout and re.fullmatch(refusal, stderr) else said, code
        if code not in (0, 1, 3) or stderr:
            return said, code
        return self.what_is_wrong(look, stdout), code

    @staticmethod
    def what_is_wrong(look, text):
        """With a report. Nothing: None."""
        try:
            report = json.loads(text)
        except ValueError:
            return "no report"
        if look[0] == "stacks":
            return None if "processes" in report else "no processes"
        return None if report["summary"]["verdict"] in ("pass", "warn", "fail", "incomplete") else "no verdict"

    def length_of(self, look):
        lengths = []
        for _ in range(3):
            began = time.monotonic()
            self.assertIsNone(self.look(look)[0])
            lengths.append(time.monotonic() - began)
        return statistics.median(lengths)

    def test_at_a_random_instant(self):
        dice = random.Random(OPTIONS.seed)
        lengths = [self.length_of(look) for look in LOOKS]
        rounds = []
        for number in range(OPTIONS.rounds):
            which = number % len(LOOKS)
            victim = VICTIMS[number // len(LOOKS) % len(VICTIMS)]
            rounds.append((LOOKS[which], victim, dice.uniform(0, lengths[which])))
        codes, wrong = collections.Counter(), []
        with concurrent.futures.ThreadPoolExecutor(JOBS) as jobs:
            for case, (what, code) in zip(rounds, jobs.map(lambda case: self.look(*case), rounds)):
                codes[code] += 1
                if what:
                    wrong.append(f"{case}: {what}")
        print(f"seed {OPTIONS.seed}: {OPTIONS.rounds} targets killed; exit codes "
              + ", ".join(f"{code}: {count}" for code, count in sorted(codes.items(), key=str)))
        self.assertEqual(wrong, [])
        self.assertLess(codes[2], OPTIONS.rounds // 2, "most were gone before dlprobe came")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000, help="of each campaign (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(2 ** 32), help="of the instants (a random one)")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    # What is left in /dev/shm can be told only where nobody else uses it.
    if "DLPROBE_OWN_SHM" not in os.environ and can_unshare():
        again = [sys.executable, *sys.argv]
        os.environ["DLPROBE_OWN_SHM"] = "yes"
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", small_shm("64m") + ' && exec "$0" "$@"', *again])
    OPTIONS.private_shm = "DLPROBE_OWN_SHM" in os.environ
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
