"""Ranks of a distributed job (gloo) that wait for one of them. Twin: the same job, in which that one comes.

The job starts its ranks as a launcher does, by RANK and its kin; each that is to stand still says so.
"""
import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from hang_common import claim, expect, parser

RANKS = 3


def loader(count=4000):
    return DataLoader(TensorDataset(torch.rand(count, 8)), batch_size=4, num_workers=1)


def step(healthy):
    """One that all ranks take, again and again if nothing is wrong."""
    claim("moves" if healthy else "still")
    total = torch.ones(8)
    while True:
        dist.all_reduce(total)
        time.sleep(0.01)


def asleep(rank, options):
    """Rank 1 uploads something, without end."""
    if rank == 1 and not options.healthy:
        claim("still")
        time.sleep(600)
    step(options.healthy)


def mismatch(rank, options):
    if rank == 1 and not options.healthy:
        claim("still")
        dist.broadcast(torch.ones(8), src=2)
    step(options.healthy)


def uneven(rank, options):
    """Rank 1 has fewer batches than the others."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    for (batch,) in loader(40 if rank == 1 and not options.healthy else 4000):
        if batch.sum() < 0:
            break
        model(batch).sum().backward()
        if options.healthy:
            break
        if rank != 1:
            tell_once()
    claim("moves" if options.healthy else "still")
    dist.barrier()
    step(options.healthy)


_told = []


def tell_once():
    """A rank that will stand still within its loop."""
    if not _told:
        _told.append(True)
        claim("still")


def loader_stuck(rank, options):
    """A worker of rank 1 waits for a pipe that nobody writes."""
    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            if rank == 1 and index == 50 and not options.healthy:
                os.read(os.pipe()[0], 1)
            return torch.ones(8)

    for batch in DataLoader(Samples(), batch_size=5, num_workers=1):
        dist.all_reduce(batch)
        if options.healthy:
            break
        tell_once()
    step(options.healthy)


def missing(rank, options):
    """Rank 1 has ended before the others could meet it."""


KINDS = {"asleep": asleep, "mismatch": mismatch, "uneven": uneven, "loader-stuck": loader_stuck, "missing": missing}


def train(options):
    rank = int(os.environ["RANK"])
    if options.kind == "missing" and not options.healthy:
        if rank == 1:
            os._exit(3)
        if rank == 2:  # who has the store polls
            claim("still")
    dist.init_process_group("gloo")
    KINDS[options.kind](rank, options)
    step(options.healthy)


def launch(options):
    expect(RANKS if options.healthy else {"missing": 1, "loader-stuck": 2}.get(options.kind, RANKS))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, *sys.argv],
                              env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                                       MASTER_PORT=str(port), OMP_NUM_THREADS="1"))
             for rank in range(RANKS)]
    for rank in ranks:
        rank.wait()


if __name__ == "__main__":
    chosen = parser(__doc__, KINDS).parse_args()
    if "RANK" in os.environ:
        torch.set_num_threads(1)
        train(chosen)
    else:
        launch(chosen)
