"""Several processes train one model in shared memory, after the Hogwild example."""
import argparse
import os
import time

import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank, model, args):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(args.steps):
        x = torch.randn(64, 32)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.01)
        if rank == 1 and step == args.steps // 2:
            misfortune(args.accident)


def misfortune(kind):
    if kind == "exit":
        os._exit(7)
    if kind == "assert":
        assert torch.isnan(torch.zeros(1)).any(), "loss is not finite"
    if kind == "abort":
        os.abort()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--accident", default="exit")
    args = parser.parse_args()
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    model.share_memory()
    mp.spawn(train, args=(model, args), nprocs=args.processes)
    print("loss", float((model(torch.ones(1, 32)) - 32).pow(2)))


if __name__ == "__main__":
    main()
