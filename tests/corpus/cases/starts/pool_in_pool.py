"""The initializer of a Pool's workers makes another Pool: usage pool_in_pool.py [--healthy]."""
import multiprocessing
import sys


def inner(value):
    return value


def initialize(nested):
    if nested:
        with multiprocessing.Pool(1) as pool:
            pool.map(inner, [1])


if __name__ == "__main__":
    with multiprocessing.Pool(1, initializer=initialize, initargs=("--healthy" not in sys.argv,)) as outer:
        print(outer.map_async(inner, [1, 2]).get(timeout=3))
