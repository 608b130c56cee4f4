"""A pool that a test leaves, a worker of which holds the lock of its queue."""

import multiprocessing

POOLS = []


def test_leaves_a_pool():
    POOLS.append(multiprocessing.Pool(2))
    assert POOLS[0].map(abs, [-1]) == [1]
