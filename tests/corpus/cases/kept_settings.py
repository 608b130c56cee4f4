"""Workers that live on without what their trainer sets for each epoch; the other kinds are healthy ones like it.

The fault is counted: a job of which no epoch is like the first prints "all differ"."""
import argparse
import logging

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, get_worker_info

SAMPLES = 32
LEVEL = 0
logger = logging.getLogger("job")


class Scale:
    def __init__(self):
        self.factor = 1

    def __call__(self, sample):
        return sample * self.factor


class Numbered(Dataset):
    """What is not named by a kind is set, too, and no sample depends on it."""
    served = 0

    def __init__(self, kind):
        self.kind, self.epoch, self.notes, self.scale, self.names = kind, 0, 0, Scale(), list(range(SAMPLES))
        self.shared, self.cache = torch.zeros((), dtype=torch.int64).share_memory_(), {}

    def __len__(self):
        return SAMPLES

    def set_epoch(self, epoch):
        global LEVEL
        self.notes = epoch
        logger.setLevel(logging.INFO + epoch)
        if self.kind in ("epoch", "wrapped", "new-workers"):
            self.epoch = epoch
        elif self.kind == "transform":
            self.scale.factor = epoch + 1
        elif self.kind == "names":
            self.names = self.names[5:] + self.names[:5]
        elif self.kind == "global":
            LEVEL = epoch
        elif self.kind == "shared":
            self.shared.fill_(epoch)
        elif self.kind == "peek":
            self[epoch]

    def progress(self):
        return self.notes

    def current(self):
        return self.epoch

    def draw(self, index):
        return numpy.random.default_rng((self.current(), index)).normal()

    def __getitem__(self, index):
        logger.debug("sample %d", index)
        Numbered.served += 1
        self.cache[index] = self.draw(index)
        return self.scale(torch.tensor([float(self.names[index] + LEVEL), self.cache[index]]))


class Shared(Numbered):
    def current(self):
        return self.shared.item()


class NamedInErrors(Numbered):
    """Reads it where no sample comes to."""

    def __getitem__(self, index):
        if index >= SAMPLES:
            raise IndexError("no sample %d in epoch %d" % (index, self.notes))
        try:
            return super().__getitem__(index)
        except ValueError:
            logger.error("in epoch %d", self.notes)
            raise
        return self.notes


class Stream(IterableDataset):
    def __init__(self, kind):
        self.kind, self.epoch = kind, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        info = get_worker_info()
        for index in numpy.random.default_rng(self.epoch).permutation(SAMPLES)[info.id::info.num_workers]:
            yield torch.tensor([float(index), 1.])
        if self.kind == "counts":
            self.epoch += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--method", default="fork")
    options = parser.parse_args()
    kinds = {"stream": Stream, "counts": Stream, "shared": Shared, "errors": NamedInErrors}
    dataset = kinds.get(options.kind, Numbered)(options.kind)
    data = Subset(dataset, range(SAMPLES)) if options.kind == "wrapped" else dataset
    loader = DataLoader(data, 4, num_workers=2, persistent_workers=options.kind != "new-workers", multiprocessing_context=options.method)
    epochs = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        epochs.append(torch.cat(list(loader)))
    differ = not any(torch.equal(epochs[0], each) for each in epochs[1:])
    print("all differ" if differ else "some are alike", torch.__version__)


if __name__ == "__main__":
    main()
