"""A job of PyTorch's that fails in the way that it is told, for confirm_torch_test.py.

usage: confirm_job.py KIND [MARKER]      it does nothing where the file MARKER is there, else makes it
"""

import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

KIND = sys.argv[1]
MIB = 1 << 20
kept = []


def two_threads():
    """Asks for a pool, as a script may: where the environment says nothing, or all the same."""
    if KIND == "pool-insists" or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(2)


def use_the_pool(count):
    two_threads()
    return torch.rand(count).sum()


class Samples(Dataset):
    def __init__(self, count, floats=16):
        self.count = count
        self.floats = floats

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if KIND.startswith("pool"):
            return use_the_pool(2_000_000)
        if KIND == "memory" and not kept:
            kept.append(os.urandom(MIB) * 150)
        if KIND.startswith("shm"):
            time.sleep(0.05)  # so that dlprobe sees how large a batch is
        return torch.full((self.floats,), float(index))


def descriptors():
    """Each batch that is kept holds a descriptor; what opens files, too, runs out of them without that."""
    for batch in DataLoader(Samples(400), batch_size=1, num_workers=2):
        kept.append(batch)
        time.sleep(0.005)
        if KIND == "descriptors-and-files" and len(kept) == 200:
            for _ in range(300):
                kept.append(open(__file__, encoding="ascii"))
                time.sleep(0.005)


def shm():
    """Up to nine batches of 4 MiB are alive; or all."""
    for batch in DataLoader(Samples(60, MIB), batch_size=1, num_workers=4):
        if KIND == "shm-kept":
            kept.append(batch)
        time.sleep(0.1)


def memory():
    """Each worker keeps 150 MiB."""
    for _ in DataLoader(Samples(16), batch_size=1, num_workers=8):
        time.sleep(0.2)


def pool():
    """Workers use a pool of OpenMP's whose threads the trainer has."""
    use_the_pool(4_000_000)
    for _ in DataLoader(Samples(20), batch_size=2, num_workers=2):
        pass


def asks_for_fork():
    """The same, and the script names the start method itself."""
    use_the_pool(4_000_000)
    for _ in DataLoader(Samples(20), batch_size=2, num_workers=2, multiprocessing_context="fork"):
        pass


def main():
    if len(sys.argv) > 2:
        if os.path.exists(sys.argv[2]):
            return
        open(sys.argv[2], "wb").close()
    {"descriptors": descriptors, "descriptors-and-files": descriptors, "shm": shm, "shm-kept": shm, "memory": memory,
     "pool": pool, "pool-insists": pool, "pool-asks-for-fork": asks_for_fork}[KIND]()


if __name__ == "__main__":
    main()
