"""A data set that raises in a worker; with --healthy it is caught there. With --slow one sample takes longer than the
timeout of its loader; with --healthy it comes in time."""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

HEALTHY = "--healthy" in sys.argv


class Table(Dataset):
    def __init__(self):
        self.rows = {index: torch.zeros(3) for index in range(60)}

    def __len__(self):
        return 64

    def __getitem__(self, index):
        try:
            return self.rows[index]
        except KeyError:
            if HEALTHY:
                return torch.ones(3)
            raise


class Remote(Dataset):
    """One sample comes from a store that is slow to answer."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 21:
            time.sleep(4 if HEALTHY else 30)
        return torch.full((3,), float(index))


def main():
    if "--slow" in sys.argv:
        return list(DataLoader(Remote(), batch_size=4, num_workers=2, timeout=6))
    return list(DataLoader(Table(), batch_size=4, num_workers=2))


if __name__ == "__main__":
    main()
