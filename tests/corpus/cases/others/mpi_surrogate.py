"""Each MPI rank fits a surrogate to its own simulations, read by a DataLoader of spawned workers."""
import argparse
import sys

import torch
from torch.utils.data import DataLoader, Dataset


def this_rank():
    from mpi4py import MPI
    return MPI.COMM_WORLD.Get_rank()


class Simulations(Dataset):
    """Samples differ from rank to rank."""

    def __init__(self, count, rank=None):
        self.count, self.rank = count, rank

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rank = this_rank() if self.rank is None else self.rank
        x = torch.linspace(0, 1, 8) + index / self.count + rank
        return x, x.sin().sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank-once", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rank = this_rank()
    loader = DataLoader(Simulations(32, rank if args.rank_once else None), batch_size=8, num_workers=args.workers,
                        multiprocessing_context="spawn" if args.workers else None)
    model = torch.nn.Linear(8, 1)
    for x, y in loader:
        loss = (model(x).squeeze(1) - y).pow(2).mean()
    print(f"rank {rank}: {loss.item():.3f}")


if __name__ == "__main__":
    sys.exit(main())
