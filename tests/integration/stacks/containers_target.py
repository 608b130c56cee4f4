"""Keeps what it makes, in many kinds of containers, and stands still after each line of its input.

usage: containers_target.py

Each container gets 100 items more for each line. "ready" is written whenever that is done.
"""

import collections
import functools
import itertools
import sys
import threading

SEEN = {}
READY = threading.Barrier(2)


class Base:
    def __init__(self):
        self.inherited = []

    def keep(self, item):
        self.inherited.append(item)


class Part(Base):
    shared = set()

    def __init__(self):
        super().__init__()
        self.history = []
        self.rows = collections.deque(maxlen=900)
        self.logs = {"train": []}

    def step(self, number):
        self.keep(number)
        self.history.append([float(number)] * 100)
        self.rows.append(number)
        self.logs["train"].append(object())
        Part.shared.add(number)


class Dynamic:
    """Its attributes come one by one, more than a class plans for."""

    def __init__(self):
        for number in range(40):
            setattr(self, "a%d" % number, number)
        self.late = []


class Trainer:
    def __init__(self):
        self.part = Part()
        self.dynamic = Dynamic()
        self.endless = itertools.cycle(range(1000))

    @functools.lru_cache(maxsize=None)
    def decoded(self, number):
        return bytes(number)

    @functools.lru_cache(maxsize=None)
    def __getitem__(self, number):
        return bytes(number)


class Full(list):
    pass


def remember(number):
    SEEN[number] = "x" * number


def in_a_thread():
    losses = []
    while True:
        READY.wait()
        losses.extend(range(100))
        READY.wait()


def main():
    trainer = Trainer()
    local, kept, captured = Full(), [1, 2, 3], []

    def add(item):
        captured.append(item)

    threading.Thread(target=in_a_thread, daemon=True).start()
    count = 0
    for _ in sys.stdin:
        for _ in range(100):
            count += 1
            trainer.part.step(count)
            trainer.decoded(count)
            _ = trainer[count], next(trainer.endless)
            trainer.dynamic.late.append(count)
            remember(count)
            local.append(count)
            add(count)
        READY.wait()
        READY.wait()
        print("ready", flush=True)
    return kept


main()
