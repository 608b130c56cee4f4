import collections
import math
import multiprocessing as mp
import random
import sys

# Quick look at the columns of the new export. Pasted into whatever Python is at hand.
COLUMNS = 12
ROWS = 20000


def column(number):
    draw = random.Random(number)
    return [draw.lognormvariate(0, 1 + number / 10) for _ in range(ROWS)]


def stats(number):
    values = sorted(column(number))
    mean = math.fsum(values) / len(values)
    return number, mean, values[len(values) // 2], values[int(len(values) * 0.99)]


def show(rows):
    width = max(len(f"{mean:.2f}") for _n, mean, _m, _p in rows)
    for number, mean, median, high in rows:
        print(f"column {number:2}: mean {mean:{width}.2f}, median {median:.2f}, 99 % {high:.2f}")


if __name__ == "__main__":
    start = sys.argv[1] if len(sys.argv) > 1 else "spawn"
    with mp.get_context(start).Pool(3) as pool:
        result = pool.map_async(stats, range(COLUMNS))
        show(result.get(60))
    print(collections.Counter("slow" if n % 2 else "fast" for n in range(COLUMNS)))
