"""A small trainer in the manner of Lightning, two ranks by torch.multiprocessing.spawn, gradients averaged by hand.

usage: keep_averages.py [--log-on-one | --late-forward]: rank 1 alone logs with sync | its forward pass takes long
"""
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS = 200


class Regression(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def log(self, value, sync_dist):
        if sync_dist:
            dist.all_reduce(value)

    def training_step(self, batch, index):
        loss = self.net(batch).pow(2).mean()
        if dist.get_rank() == 1 and "--late-forward" in sys.argv:
            time.sleep(0.15)
        self.log(loss.detach().clone(), sync_dist=index == 7 and (dist.get_rank() == 1 or "--log-on-one" not in sys.argv))
        return loss


class Trainer:
    def __init__(self, ranks):
        self.ranks = ranks

    def average(self, gradient):
        parts = [torch.zeros_like(gradient) for _ in range(self.ranks)]
        dist.all_gather(parts, gradient)
        gradient.copy_(sum(parts) / self.ranks)

    def fit(self, module):
        optimizer = torch.optim.SGD(module.parameters(), 0.01)
        for index in range(STEPS):
            loss = module.training_step(torch.rand(16, 4), index)
            optimizer.zero_grad()
            loss.backward()
            for parameter in module.parameters():
                self.average(parameter.grad)
            optimizer.step()


def run(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    Trainer(2).fit(Regression())


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()[1]
    mp.spawn(run, (address,), nprocs=2)
