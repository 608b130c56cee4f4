"""Data of which a part never comes, without an error; the other jobs are healthy ones like it.

The fault is counted: a job to which all came prints "all came"."""
import argparse

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

SAMPLES, BROKEN, EPOCHS = 120, 10, 3


def decoded(number):
    if number == BROKEN:
        raise ValueError("broken sample")
    return torch.full((3,), float(number))


class Reader:
    """Its next sample comes after one that failed, too."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __iter__(self):
        return self

    def __next__(self):
        return decoded(next(self.numbers))


class Stream(IterableDataset):
    def __init__(self, job):
        self.job = job

    def __iter__(self):
        info = get_worker_info()
        numbers = iter(range(info.id, SAMPLES, info.num_workers))
        return Reader(numbers) if self.job == "goes-on" else self.generate(numbers)

    def generate(self, numbers):
        for number in numbers:
            try:
                yield decoded(number)
            except ValueError:
                if self.job != "caught-in-worker":
                    raise


class Table(Dataset):
    left_out = 0  # of each ten

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.full((3,), float(index)) if index % 10 >= self.left_out else None


class MostlyNone(Table):
    left_out = 8


class RarelyNone(Table):
    left_out = 1


def without_none(samples):
    return torch.stack([each for each in samples if each is not None])


class Order:
    def __iter__(self):
        return in_tens()


def in_tens():
    for first in range(0, SAMPLES, 10):
        yield list(range(first, first + 10))


def samples_of(loader, job):
    batches = iter(loader)
    while True:
        try:
            yield from next(batches)
        except StopIteration:
            return
        except ValueError:
            if job == "given-up":
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=("caught", "caught-in-worker", "goes-on", "given-up", "generator", "class", "generator-once",
                                        "mostly-none", "rarely-none"))
    parser.add_argument("--method", default="fork")
    options = parser.parse_args()
    job, epochs, expected = options.job, 1, SAMPLES
    workers = {"num_workers": 2, "multiprocessing_context": options.method}
    if job in ("generator", "class", "generator-once"):
        loader = DataLoader(Table(), batch_sampler=Order() if job == "class" else in_tens(), **workers)
        epochs = 1 if job == "generator-once" else EPOCHS
    elif job.endswith("-none"):
        loader = DataLoader(MostlyNone() if job == "mostly-none" else RarelyNone(), 10, collate_fn=without_none, **workers)
    else:
        loader, expected = DataLoader(Stream(job), 1, **workers), SAMPLES - 1
    for _ in range(epochs):
        count = sum(1 for _ in samples_of(loader, job))
        print("all came" if count == expected else "%d of %d samples came" % (count, expected), torch.__version__, flush=True)


if __name__ == "__main__":
    main()
