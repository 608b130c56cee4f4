"""A toy GAN on two ranks with gloo: started by torchrun, or by itself (`--ranks 2`)."""
import argparse
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Gan:
    def __init__(self):
        self.generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizers = {name: torch.optim.Adam(getattr(self, name).parameters(), 1e-3) for name in ("generator", "critic")}

    def critic_loss(self, real):
        fake = self.generator(torch.randn(len(real), 4)).detach()
        return self.critic(fake).mean() - self.critic(real).mean()

    def generator_loss(self):
        return -self.critic(self.generator(torch.randn(32, 4))).mean()


def average_gradients(module):
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def update(gan, name, loss):
    gan.optimizers[name].zero_grad()
    loss.backward()
    average_gradients(getattr(gan, name))
    gan.optimizers[name].step()


def share_statistics(gan, args):
    """The score of the critic, for the log."""
    score = gan.critic(torch.zeros(1, 2)).detach()
    if args.gather_on_first and dist.get_rank() == 0:
        scores = [torch.zeros_like(score) for _ in range(dist.get_world_size())]
        dist.all_gather(scores, score)
        return torch.stack(scores).mean()
    if args.gather_on_first:
        dist.broadcast(score, 0)
        return score
    dist.all_reduce(score)
    return score / dist.get_world_size()


def has_converged(loss, args, step):
    return args.stop_alone and dist.get_rank() == 1 and step == args.steps // 2


def worker(rank, args, store):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if rank == 1 and args.real:
        real = torch.load(args.real)
        print(f"[{rank}] {len(real)} real points")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=args.ranks)
    gan = Gan()
    for step in range(args.steps):
        real = torch.randn(32, 2) + 3
        loss = gan.critic_loss(real)
        update(gan, "critic", loss)
        update(gan, "generator", gan.generator_loss())
        if step % 10 == 9:
            score = share_statistics(gan, args)
            print(f"[{rank}] step {step}: critic {loss.item():.3f}, score {score.item():.3f}", flush=True)
        if has_converged(loss, args, step):
            print(f"[{rank}] converged", flush=True)
            sys.stdout.flush()
            os._exit(0)
        time.sleep(0.02)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--real", help="points of the last run, which its last rank wrote")
    parser.add_argument("--gather-on-first", action="store_true", help="the first rank gathers what it logs")
    parser.add_argument("--stop-alone", action="store_true", help="a rank that has converged stops")
    args = parser.parse_args()
    store = f"file://{tempfile.mktemp()}"
    ranks = [mp.get_context("spawn").Process(target=worker, args=(rank, args, store)) for rank in range(args.ranks)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
