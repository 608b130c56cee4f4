"""Augments images by a parallel Numba function, and trains by torch in the same process."""
import argparse
import time

import numba
import numpy as np
import torch


@numba.njit(parallel=True)
def jitter(images, seed):
    result = np.empty_like(images)
    for i in numba.prange(images.shape[0]):
        result[i] = images[i] * (1 + 0.01 * ((i + seed) % 7))
    return result


class Augmenter:
    def __init__(self, layer):
        numba.config.THREADING_LAYER = layer
        numba.set_num_threads(2)

    def batches(self, count):
        images = np.random.rand(8, 32, 32).astype(np.float32)
        for number in range(count):
            yield torch.from_numpy(jitter(images, number))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layer", default="omp")
    parser.add_argument("--batches", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(2)
    head = torch.nn.Linear(1024, 2)
    for batch in Augmenter(args.layer).batches(args.batches):
        loss = head(batch.flatten(1)).pow(2).mean()
        loss.backward()
        time.sleep(0.05)
    print("loss", loss.item())


if __name__ == "__main__":
    main()
