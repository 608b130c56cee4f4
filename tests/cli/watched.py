"""The trees of kill_target.py, seen from outside: whether somebody disturbs them, and how to kill them."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

from kill_target import COUNTING, SLOT, SLOTS, Board

TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kill_target.py")
# Of a dlprobe, or a target, that hangs: far more than any of them needs.
LIMIT_S = 20


def until(condition, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.0005)
    return True


def read(path):
    """What a file of /proc says; nothing where its thread is gone."""
    try:
        with open(path, encoding="latin1") as file:
            return file.read()
    except OSError:
        return ""


def tracer_of(pid, tid):
    """0: nobody, or it is gone."""
    words = read(f"/proc/{pid}/task/{tid}/status").partition("TracerPid:")[2].split()
    return int(words[0]) if words else 0


class Job:
    """Processes that are looked at, and must not notice."""

    def __init__(self, pids):
        self.pids = pids
        self.tids = self.threads()

    def threads(self):
        """As (pid, tid); none of a process that is gone."""
        found = set()
        for pid in self.pids:
            with contextlib.suppress(OSError):
                found.update((pid, int(tid)) for tid in os.listdir(f"/proc/{pid}/task"))
        return found

    def disturbances(self):
        """What is wrong now, in words."""
        wrong = []
        if self.threads() != self.tids:
            wrong.append(f"threads came or went: {sorted(self.threads() ^ self.tids)}")
        for pid, tid in sorted(self.tids):
            state = read(f"/proc/{pid}/task/{tid}/stat").rpartition(")")[2][1:2]
            if state not in ("R", "S", "D"):
                wrong.append(f"thread {tid} of {pid} is in state {state!r}")
            elif tracer_of(pid, tid) != 0:
                wrong.append(f"thread {tid} of {pid} is traced")
        return wrong


class Watched(Job):
    """The tree of kill_target.py that shows every disturbance."""

    def __init__(self, folder):
        board = os.path.join(folder, "board")
        with open(board, "wb") as file:
            file.truncate(SLOTS * SLOT.size)
        self.board = Board(board)
        self.process = subprocess.Popen([sys.executable, TARGET, "watched", board], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        super().__init__([int(word) for word in self.process.stdout.readline().split()[1:]])
        until(lambda: all(self.turns()))
        self.running = [thread for thread in self.tids if thread[1] in [self.board.get(slot)[0] for slot in COUNTING]]

    def turns(self):
        return [self.board.get(slot)[1] for slot in COUNTING]

    def end(self):
        """Also if they stand still; the workers end with their trainer."""
        self.process.kill()
        self.process.communicate()

    def disturbances(self, limit_s=LIMIT_S):
        """`limit_s`: for those that run to go on."""
        wrong = super().disturbances()
        for slot in range(SLOTS):
            tid, _, came_back = self.board.get(slot)
            if came_back:
                wrong.append(f"the call of slot {slot}, thread {tid}, came back: {os.strerror(came_back - 1)}")
        before = self.turns()
        if not wrong and not until(lambda: all(now > then for now, then in zip(self.turns(), before)), limit_s):
            wrong.append(f"does not go on: {before}, {self.turns()}")
        return wrong


class Tree:
    """A trainer and two workers that are there to be killed; `pids` are theirs."""

    def __init__(self, pids):
        self.pids = pids
        self.handles = [os.pidfd_open(pid) for pid in pids]

    def kill(self, victim):
        for handle in {"trainer": self.handles[:1], "worker": self.handles[1:2], "all": self.handles}[victim]:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    def end(self):
        self.kill("all")
        for handle in self.handles:
            os.close(handle)


class Trees:
    """The process that makes them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.process = subprocess.Popen([sys.executable, TARGET, "many"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def make(self):
        with self.lock:
            self.process.stdin.write("one\n")
            self.process.stdin.flush()
            return Tree([int(word) for word in self.process.stdout.readline().split()])

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
