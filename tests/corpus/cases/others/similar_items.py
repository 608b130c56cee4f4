"""Finds similar items of a shop: the table of vectors is built when the module is loaded, "so that it is there once"."""
import math
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

START = sys.argv[1] if len(sys.argv) > 1 else "spawn"
ITEMS = int(sys.argv[2]) if len(sys.argv) > 2 else 150_000


def make_table(count):
    draw = random.Random(1)
    table = []
    for _ in range(count):
        vector = [draw.gauss(0, 1) for _ in range(24)]
        length = math.sqrt(sum(x * x for x in vector))
        table.append([x / length for x in vector])
    return table


TABLE = make_table(ITEMS)


def best_match(query):
    scores = (sum(x * y for x, y in zip(TABLE[query], vector)) for vector in TABLE[:500] if vector is not TABLE[query])
    return query, max(scores)


def main():
    began = time.monotonic()
    with ProcessPoolExecutor(2, get_context(START)) as executor:
        for query, score in executor.map(best_match, range(8)):
            print(f"{query}: {score:.3f}")
    print(f"in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
