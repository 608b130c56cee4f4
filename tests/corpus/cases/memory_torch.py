"""Datasets of PyTorch whose memory grows in the workers: a list of Python objects that fork shares, and a leak.

Twins: the same in an array; nothing kept.
"""
import time

import numpy
import torch
from torch.utils.data import Dataset

from common import make_loader, parser


class Texts(Dataset):
    """Reads all of its texts evenly over `seconds`, whatever index is asked for."""

    def __init__(self, count, as_array, seconds):
        texts = [f"sample {number:012d} " + "x" * 40 for number in range(count)]
        self.texts = numpy.array(texts, dtype=numpy.bytes_) if as_array else texts
        self.seconds = seconds
        self.start = None
        self.done = 0

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        now = time.monotonic()
        self.start = self.start or now
        count = len(self.texts)
        until = min(int(count * (now - self.start) / self.seconds), count)
        total = sum(len(self.texts[number]) for number in range(self.done, until))
        self.done = max(self.done, until)
        return torch.tensor([total, index])


class Keeper(Dataset):
    """Keeps `rate` MiB a second, in the first worker alone."""

    def __init__(self, rate):
        self.rate = rate
        self.kept = []
        self.start = None

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        if info.id == 0 and self.rate:
            self.start = self.start or time.monotonic()
            while len(self.kept) < self.rate * (time.monotonic() - self.start):
                self.kept.append(torch.zeros(1 << 18))
        return torch.tensor([index])


def main():
    arguments = parser(__doc__)
    arguments.add_argument("kind", choices=["list", "leak"])
    arguments.add_argument("--seconds", type=float, default=6)
    options = arguments.parse_args()
    if options.kind == "list":
        dataset = Texts(700_000, options.healthy, 4)
    else:
        dataset = Keeper(0 if options.healthy else 10)
    end = time.monotonic() + options.seconds
    for _ in make_loader(options, dataset):
        time.sleep(options.step_ms / 1000)
        if time.monotonic() > end:
            break


if __name__ == "__main__":
    main()
