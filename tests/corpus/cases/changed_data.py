"""Workers that change the samples that their data set keeps; the other kinds are healthy ones like it.

The fault is counted: samples that differ between the epochs."""
import sys
import tempfile

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

COUNT, EPOCHS = 64, 4


class Kept(Dataset):
    def __init__(self, kind):
        self.kind, self.memory, self.known = kind, torch.arange(COUNT * 16.).reshape(COUNT, 16), {}
        if kind in ("shared", "filled", "not-in-place"):
            self.memory.share_memory_()
        if kind == "filled":
            self.done = torch.zeros(COUNT, dtype=torch.bool).share_memory_()
        if kind in ("array", "own-copy"):
            self.memory = self.memory.numpy()
        if kind in ("mapped", "mapped-private"):
            with tempfile.NamedTemporaryFile(suffix=".npy") as file:
                numpy.save(file.name, self.memory.numpy())
                self.memory = numpy.load(file.name, mmap_mode="r+" if kind == "mapped" else "c")

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        row = self.memory[index]
        if self.kind == "filled":
            if not self.done[index]:
                row.mul_(2)
                self.done[index] = True
        elif self.kind == "not-in-place":
            row = row / 2
        elif self.kind == "cached":
            row = self.known.setdefault(index, row.clone()).mul_(.5)
        else:
            row /= 2
        return index, torch.from_numpy(row) if isinstance(row, numpy.ndarray) and self.kind != "mapped" else row


def main():
    kind = sys.argv[1]
    lives_on = kind in ("array", "cached")
    loader = DataLoader(Kept(kind), 4, shuffle=True, num_workers=2, persistent_workers=lives_on, multiprocessing_context="fork")
    epochs = [{int(index): float(sum(row)) for indices, rows in loader for index, row in zip(indices, rows)} for _ in range(EPOCHS)]
    changed = sum(epochs[0][index] != epochs[-1][index] for index in range(COUNT))
    print("changed", changed)
    sys.exit(0 if (changed > 0) == (kind in ("shared", "array", "mapped", "cached")) else "it did not come to it")


if __name__ == "__main__":
    main()
