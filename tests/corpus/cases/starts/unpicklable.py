"""Sends a worker something that cannot be pickled: usage unpicklable.py KIND [--healthy]."""
import multiprocessing
import sqlite3
import sys
import threading


class Step:
    """One of the transforms."""


class Transform:
    def __init__(self):
        self.steps = [Step(), Step()]


class Images:
    def __init__(self):
        self.transform = Transform()


def local_class():
    class Hidden:
        pass
    return Hidden()


KINDS = {
    "lambda": lambda: lambda value: value,
    "local-class": local_class,
    "open-file": lambda: open(__file__, encoding="utf-8"),
    "lock": threading.Lock,
    "generator": lambda: (value for value in range(3)),
    "sqlite": lambda: sqlite3.connect(":memory:"),
    "module": lambda: sys,
}


def work(dataset):
    del dataset


def main():
    dataset = Images()
    if "--healthy" not in sys.argv:
        dataset.transform.steps[1].what = KINDS[sys.argv[1]]()
    process = multiprocessing.Process(target=work, args=(dataset,))
    process.start()
    process.join()
    sys.exit(process.exitcode)


if __name__ == "__main__":
    main()
