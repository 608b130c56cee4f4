"""A training loop that ends each epoch early and keeps the loader's iterator, and its twin that lets it go."""
import time

import torch
from hang_common import parser

from torch.utils.data import DataLoader, TensorDataset


def main():
    arguments = parser(__doc__, ("iterators",))
    arguments.add_argument("--seconds", type=float, default=25)
    options = arguments.parse_args()
    loader = DataLoader(TensorDataset(torch.zeros(16, 8)), batch_size=2, num_workers=options.workers)
    kept = []
    print("ready", flush=True)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        batches = iter(loader)
        for _ in range(2):
            next(batches)
            time.sleep(0.4)
        if not options.healthy:
            kept.append(batches)


if __name__ == "__main__":
    main()
