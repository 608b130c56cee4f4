"""Loads its data at module level, or under the guard: usage heavy_module.py [--healthy]."""
import multiprocessing
import sys
import time


def load():
    data = bytearray(64 << 20)
    until = time.monotonic() + 1.3
    while time.monotonic() < until:
        for page in range(0, len(data), 4096):
            data[page] = 1
    return data


def work():
    pass


if "--healthy" not in sys.argv:
    DATA = load()

if __name__ == "__main__":
    if "--healthy" in sys.argv:
        DATA = load()
    process = multiprocessing.Process(target=work)
    process.start()
    process.join()
