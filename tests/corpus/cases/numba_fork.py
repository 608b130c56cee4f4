"""An executor whose workers smooth signals by Numba's threads on OpenMP, after the trainer has done so. Healthy: on Numba's own
threads, which survive a fork."""
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import numba
import numpy as np

numba.config.THREADING_LAYER = "workqueue" if "--healthy" in sys.argv else "omp"


@numba.njit(parallel=True)
def smooth(signal):
    result = np.empty_like(signal)
    for i in numba.prange(signal.size):
        result[i] = signal[max(i - 1, 0)] * 0.5 + signal[i] * 0.5
    return result


def work(number):
    return smooth(np.full(1000, float(number))).sum()


if __name__ == "__main__":
    print(smooth(np.ones(1000)).sum())
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
        print(sum(executor.map(work, range(8))))
