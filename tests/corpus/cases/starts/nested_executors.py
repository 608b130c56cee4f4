"""Executors inside executors: their workers are not daemonic."""
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool


def inner(value):
    return value


def outer(value):
    with ProcessPoolExecutor(1) as executor:
        return list(executor.map(inner, [value]))


if __name__ == "__main__":
    if sys.version_info >= (3, 9):  # before, they are daemonic
        with ProcessPoolExecutor(1) as executor:
            print(list(executor.map(outer, [1])))
    else:
        with Pool(1) as pool:
            print(pool.map(inner, [1]))
