"""Workers that write to memory which they have sent; the other kinds are healthy ones like it.

The fault is counted: batches that the loop got with other values than those of their number."""
import argparse
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

BATCHES, NUMBERS = 40, 20000


def as_is(thing):
    return thing


class Buffered(Dataset):
    """A sample is a batch."""

    def __init__(self, kind):
        self.kind, self.count = kind, 0
        self.buffer = torch.zeros(NUMBERS)
        self.mask = torch.full((8,), 3.)
        self.table = torch.arange(float(BATCHES)).repeat_interleave(10).reshape(BATCHES, 10)
        self.ring = [torch.zeros(NUMBERS) for _ in range(4)]
        if kind in ("shared", "cache", "table", "clone-shared"):
            self.buffer.share_memory_()
            self.table.share_memory_()
        if kind == "cache":
            self.table.zero_()

    def __len__(self):
        return BATCHES

    def fill(self, index):
        self.buffer[:] = index
        return self.buffer

    def __getitem__(self, index):
        self.count += 1
        made = {
            "buffer": lambda: self.fill(index),
            "shared": lambda: self.fill(index)[:9],
            "part": lambda: self.fill(index)[:NUMBERS // 2].view(2, -1),
            "clone": lambda: self.fill(index).clone(),
            "clone-shared": lambda: self.fill(index).clone(),
            "constant": lambda: torch.full((9,), float(index)),
            "table": lambda: self.table[index],
            "cache": lambda: self.table[index].fill_(index),
            "ring": lambda: self.ring[self.count % 4].fill_(index),
            "array": lambda: numpy.full(9, float(index)),
        }
        return {"index": index, "mask": self.mask, "made": [made[self.kind]()]}


class Single(Dataset):
    def __len__(self):
        return BATCHES * 4

    def __getitem__(self, index):
        return torch.full((9,), float(index // 4))


class IntoBuffer:
    """A collate_fn."""

    def __init__(self):
        self.buffer = torch.zeros(4, 9)

    def __call__(self, samples):
        return {"index": int(samples[0][0]), "made": (torch.stack(samples, out=self.buffer),)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--method", default="fork")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    method = options.method if options.workers else None
    if options.kind == "collate":
        loader = DataLoader(Single(), 4, num_workers=options.workers, collate_fn=IntoBuffer(), multiprocessing_context=method)
    else:
        loader = DataLoader(Buffered(options.kind), batch_size=None, num_workers=options.workers, collate_fn=as_is,
                            multiprocessing_context=method)
    wrong = 0
    for batch in loader:
        wrong += not bool((torch.as_tensor(batch["made"][0]) == batch["index"]).all())
        time.sleep(.01)
    print("%d of %d batches are wrong" % (wrong, len(loader)), torch.__version__)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
