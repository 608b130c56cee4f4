"""Federated averaging: clients train for themselves, and average their models over gloo after each round."""
import argparse
import datetime
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class Client:
    def __init__(self, rank, args):
        self.rank, self.args = rank, args
        torch.manual_seed(rank)
        self.model = torch.nn.Linear(4, 1)

    def local_epoch(self, round_number):
        optimizer = torch.optim.SGD(self.model.parameters(), 0.05)
        for _ in range(5):
            x = torch.randn(16, 4)
            loss = (self.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if self.rank == 2 and round_number == self.args.leaves_at:
            os._exit(0)  # its battery is low
        return loss.item()

    def average(self):
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size()


def run(rank, args, port):
    torch.set_num_threads(1)
    if rank == 2 and args.never_comes:
        return
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=3,
                            timeout=datetime.timedelta(seconds=args.timeout))
    client = Client(rank, args)
    for round_number in range(args.rounds):
        loss = client.local_epoch(round_number)
        time.sleep(0.05)
        client.average()
    print(f"client {rank}: {loss:.3f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=8)
    parser.add_argument("--leaves-at", type=int)
    parser.add_argument("--never-comes", action="store_true")
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    clients = [mp.get_context("spawn").Process(target=run, args=(rank, args, port)) for rank in range(3)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    sys.exit(any(client.exitcode for client in clients))


if __name__ == "__main__":
    main()
