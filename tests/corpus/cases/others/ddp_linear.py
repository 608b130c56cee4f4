"""The DDP tutorial with a sampler of its own: torchrun --nproc-per-node 2 ddp_linear.py, or --spawn 2 without torchrun."""
import argparse
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Lines(Dataset):
    def __init__(self, size, slow_at=None, seconds=0.0):
        self.size, self.slow_at, self.seconds = size, slow_at, seconds

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index == self.slow_at:
            time.sleep(self.seconds)
        x = torch.full((8,), float(index % 10))
        return x, x.sum().unsqueeze(0)


def validate(model, rank, args, epoch):
    """Only rank 0 has the validation data."""
    if args.metric == "rank0" and rank == 0 or args.metric == "all":
        score = torch.tensor([float(epoch)])
        dist.all_reduce(score)


def train(rank, world, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = DDP(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    rows = args.rows + (args.uneven * 8 if rank == 0 else 0)
    data = Lines(rows, 100 if rank == world - 1 else None, args.slow)
    for epoch in range(args.epochs):
        for step, (x, y) in enumerate(DataLoader(data, batch_size=8, num_workers=args.workers)):
            if args.crash and rank == 1 and step == 10:
                os._exit(0)
            loss = (model(x) - y).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        validate(model, rank, args, epoch)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def spawned(rank, world, port, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    train(rank, world, args)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=320)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--uneven", type=int, default=0, help="batches that rank 0 has more than the others")
    parser.add_argument("--metric", choices=["none", "all", "rank0"], default="none")
    parser.add_argument("--slow", type=float, default=0, help="seconds that one row of the last rank takes")
    parser.add_argument("--crash", action="store_true")
    args = parser.parse_args()
    if args.spawn:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(spawned, args=(args.spawn, port, args), nprocs=args.spawn)
    else:
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args)


if __name__ == "__main__":
    main()
