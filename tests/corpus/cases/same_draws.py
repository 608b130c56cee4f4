"""Processes of multiprocessing, none of a DataLoader, that draw from copies of one generator; the other kinds are healthy ones like it.

The fault is counted: how many arrays came twice."""
import argparse
import multiprocessing
import os
import sys
import time

import numpy

RNG = numpy.random.default_rng(3)
ITEMS, NUMBERS = 12, 256


def draw(index, kind):
    time.sleep(0.02)  # so that each worker has some
    if kind == "by-item":
        numpy.random.seed(index)
    if kind in ("global", "by-item", "seeded"):
        return numpy.random.normal(size=NUMBERS)
    if kind == "results":  # of runs that may begin alike
        return float(numpy.random.normal(size=NUMBERS).mean())
    return RNG.normal(size=NUMBERS)


def ordered(queue, number, kind):
    order = RNG.permutation(4 * ITEMS)[number::2]  # the same in both, which share it out
    for index in order:
        queue.put(numpy.full(NUMBERS, index))


def fill(queue, number, kind):
    if kind == "own":
        RNG.bit_generator.state = numpy.random.default_rng(number).bit_generator.state
    if kind == "ordered":
        return ordered(queue, number, kind)
    for index in range(ITEMS):
        queue.put(draw(index + number * ITEMS, kind))


def seed_anew():
    numpy.random.seed(int.from_bytes(os.urandom(4), "little"))


class Draw:
    def __init__(self, kind):
        self.kind = kind

    def __call__(self, index):
        return draw(index, self.kind)


def of_processes(context, options):
    queue = context.Queue()
    made = [context.Process(target=fill, args=(queue, number, options.kind)) for number in range(2)]
    if options.kind == "one-by-one":
        arrays = []
        for each in made:
            each.start()
            arrays += [queue.get() for _ in range(ITEMS)]
            each.join()
        return arrays
    for each in made:
        each.start()
    arrays = [queue.get() for _ in range(2 * (2 * ITEMS if options.kind == "ordered" else ITEMS))]
    for each in made:
        each.join()
    return arrays


def of_pool(context, options):
    with context.Pool(2, initializer=seed_anew if options.kind == "seeded" else None) as pool:
        return pool.map(Draw(options.kind), range(2 * ITEMS), chunksize=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("module", "global", "own", "by-item", "seeded", "results", "ordered", "one-by-one"))
    parser.add_argument("--method", default="fork")
    parser.add_argument("--pool", action="store_true")
    options = parser.parse_args()
    numpy.random.seed(1)
    context = multiprocessing.get_context(options.method)
    arrays = (of_pool if options.pool else of_processes)(context, options)
    seen = {numpy.asarray(each).tobytes() for each in arrays}
    print("%d of %d came twice" % (len(arrays) - len(seen), len(arrays)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
