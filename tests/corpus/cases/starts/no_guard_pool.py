"""A Pool at module level: it replaces its dead workers for ever."""
from multiprocessing import Pool


def square(value):
    return value * value


pool = Pool(2)
print(pool.map(square, range(4)))
