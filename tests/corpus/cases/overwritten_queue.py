"""Processes that put NumPy arrays into a queue and write to them before they are pickled; the other kinds are healthy."""
import argparse
import multiprocessing

import numpy

BLOCKS = 40


def read(kind, queue, start):
    block, ring = numpy.zeros(5000, numpy.float32), [numpy.zeros(5000) for _ in range(BLOCKS)]
    for number in range(start, start + BLOCKS):
        if kind == "fresh":
            block = numpy.empty(5000, numpy.float32)
        elif kind == "ring":
            block = ring[number % BLOCKS]
        block[:] = number
        queue.put({"number": number, "block": [block.copy() if kind == "copied" else block]})
    queue.put(None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--method", default="fork")
    options = parser.parse_args()
    context = multiprocessing.get_context(options.method)
    queue = context.Queue(8)
    readers = [context.Process(target=read, args=(options.kind, queue, 1000 * number)) for number in range(2)]
    for reader in readers:
        reader.start()
    left, wrong = 2, 0
    while left:
        got = queue.get()
        left -= got is None
        wrong += got is not None and not bool((got["block"][0] == got["number"]).all())
    for reader in readers:
        reader.join()
    print(wrong, "blocks are wrong", flush=True)


if __name__ == "__main__":
    main()
