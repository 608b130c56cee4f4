"""What every case shares: the options, a dataset of equal samples, and a loader in the asked form.

Runs on torch 1.13 and 2.x, under every start method and sharing strategy.
"""
import argparse
import contextlib
import os
import time

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

MIB = 1 << 20


def parser(description):
    """Options that each case understands."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--start-method", default="fork", choices=["fork", "spawn", "forkserver"])
    result.add_argument("--strategy", default="file_descriptor",
                        choices=["file_descriptor", "file_system"])
    result.add_argument("--workers", type=int, default=2)
    result.add_argument("--batch-size", type=int, default=4)
    result.add_argument("--sample-mib", type=float, default=1.0)
    result.add_argument("--batches", type=int, default=12, help="per epoch")
    result.add_argument("--epochs", type=int, default=1)
    result.add_argument("--step-ms", type=int, default=20, help="time of one training step")
    result.add_argument("--healthy", action="store_true", help="the twin that nothing is wrong with")
    return result


class Samples(Dataset):
    """`count` float32 samples of `mib` MiB each, with a label."""

    def __init__(self, count, mib):
        self.count = count
        self.elements = int(mib * MIB / 4)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        return torch.full((self.elements,), float(index)), index


class UseStrategy:
    """worker_init_fn: spawned workers do not inherit the sharing strategy."""

    def __init__(self, strategy):
        self.strategy = strategy

    def __call__(self, worker_id):
        mp.set_sharing_strategy(self.strategy)


def make_loader(options, dataset=None, **changes):
    """A DataLoader in the form that the options ask for."""
    mp.set_sharing_strategy(options.strategy)
    if dataset is None:
        dataset = Samples(options.batches * options.batch_size, options.sample_mib)
    arguments = {
        "batch_size": options.batch_size,
        "num_workers": options.workers,
        "multiprocessing_context": options.start_method,
        "worker_init_fn": UseStrategy(options.strategy),
    }
    arguments.update(changes)
    return DataLoader(dataset, **arguments)


def train(loader, options):
    """The training loop: a step takes --step-ms."""
    for _ in range(options.epochs):
        for data, _label in loader:
            data.sum().item()
            time.sleep(options.step_ms / 1000)


def say(text):
    """One line for the test driver, at once."""
    print(text, flush=True)


@contextlib.contextmanager
def removed_at_exit(path):
    """Removes the file in the process that made it, whatever happens."""
    owner = os.getpid()
    try:
        yield path
    finally:
        if os.getpid() == owner and os.path.exists(path):
            os.unlink(path)
