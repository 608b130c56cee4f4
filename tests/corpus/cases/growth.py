"""Jobs in which something becomes more, along a line, and twins that keep it for eight seconds and no longer. No torch;
Python 3.8 and later. All growth goes by the clock, not by the machine's speed."""
import collections
import mmap
import multiprocessing
import os
import socket
import subprocess
import threading
import time
from multiprocessing import shared_memory

from hang_common import parser

SPAWN = multiprocessing.get_context("spawn")


def descriptors(_number):
    return socket.socket()


def mappings(number):
    return mmap.mmap(-1, 4096 * (1 + number % 3))  # shared: each is a mapping of its own


def threads(_number):
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def memory(_number):
    return [[number] * 8 for number in range(1800)]  # a quarter of a MiB, about


def segments(_number):
    return shared_memory.SharedMemory(create=True, size=1 << 16)


def let_go_segments(number):
    segments(number).close()  # who makes them has them open for a moment only


def semaphores(_number):
    return SPAWN.Lock()  # keeps its name for as long as it lives


def zombies(_number):
    return subprocess.Popen(["true"])  # nobody waits for it


def reaped(number):
    CHILDREN.append(zombies(number))
    if len(CHILDREN) == 40:
        for child in CHILDREN:
            child.wait()
        CHILDREN.clear()


CHILDREN = []
KINDS = {function.__name__: function
         for function in (descriptors, mappings, threads, memory, segments, let_go_segments, semaphores, zombies, reaped)}
RATES = {"descriptors": 44, "mappings": 200, "threads": 5, "memory": 28, "segments": 5, "let_go_segments": 5,
         "semaphores": 10, "zombies": 20, "reaped": 20}


class Keeper:
    """Makes RATES[kind] a second from the first call on, and keeps them."""

    def __init__(self, kind, fills_s, most=None):
        self.kind = kind
        self.until = fills_s
        self.start = None
        self.kept = collections.deque(maxlen=most)

    def __call__(self, item=None):
        self.start = self.start or time.monotonic()
        due = RATES[self.kind] * min(time.monotonic() - self.start, self.until)
        while len(self.kept) < due:
            self.kept.append(KINDS[self.kind](len(self.kept)))
        time.sleep(0.01)
        return item


def start_worker(keeper):
    start_worker.keeper = keeper


def task(item):
    return start_worker.keeper(item)


def main():
    arguments = parser(__doc__, KINDS)
    arguments.add_argument("--seconds", type=float, default=25)
    arguments.add_argument("--fills-s", type=float, default=8, help="what the healthy one takes until it has all")
    arguments.add_argument("--pool", action="store_true", help="in the workers of a pool")
    arguments.add_argument("--joins", action="store_true", help="at its end it makes a whole of what it kept: memory only")
    arguments.add_argument("--rate", type=float, help="so many a second")
    arguments.add_argument("--most", type=int, help="it keeps the newest of them only")
    arguments.add_argument("--ends-s", type=float, default=0, help="so long it ends, without the oldest tenth of what it kept")
    options = arguments.parse_args()
    RATES[options.kind] = options.rate or RATES[options.kind]
    end = time.monotonic() + options.seconds
    keeper = Keeper(options.kind, options.fills_s if options.healthy else float("inf"), options.most)
    print("ready", flush=True)
    if options.pool:
        fork = multiprocessing.get_context("fork")
        with fork.Pool(options.workers, initializer=start_worker, initargs=(keeper,)) as pool:
            while time.monotonic() < end:
                pool.map(task, range(8))
    else:
        while time.monotonic() < end:
            keeper()
        whole = [list(row) for block in keeper.kept for row in block] if options.joins else []
        print(len(whole), "rows", flush=True)
        for _ in range(len(keeper.kept) // 10 if options.ends_s else 0):
            keeper.kept.popleft()
        time.sleep(options.ends_s)
        for block in keeper.kept:
            if options.kind == "segments":
                block.close()
                block.unlink()
    os._exit(0)


if __name__ == "__main__":
    main()
