"""A real hang to look at: a trainer and DataLoader workers that wait for a lock which was held when they were forked.

usage: hung_tree.py WORKERS

Prints "hangs" when every worker has come to the lock; ends when its stdin does.
"""

import sys
import threading

import torch
from torch.utils.data import DataLoader, Dataset
import torch.multiprocessing as multiprocessing

LOCK = threading.Lock()


class Samples(Dataset):
    def __init__(self, arrived):
        self.arrived = arrived

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        self.arrived.release()
        with LOCK:
            return torch.zeros(16)


def main():
    workers = int(sys.argv[1])
    arrived = multiprocessing.get_context("fork").Semaphore(0)
    LOCK.acquire()
    batches = iter(DataLoader(Samples(arrived), batch_size=4, num_workers=workers, multiprocessing_context="fork"))
    threading.Thread(target=lambda: next(batches), daemon=True).start()
    for _ in range(workers):
        arrived.acquire()
    print("hangs", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
