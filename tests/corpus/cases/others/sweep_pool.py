"""Random search over learning rates. Every trial is a task of a pool and trains with a DataLoader."""
import argparse
import math
import multiprocessing as mp
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True)
class Trial:
    number: int
    learning_rate: float
    hidden: int
    workers: int


class ConcentricRings:
    def __init__(self, count=512):
        angles = torch.rand(count) * 2 * math.pi
        label = torch.arange(count) % 2
        radius = 1.0 + label + 0.1 * torch.randn(count)
        self.data = TensorDataset(torch.stack([radius * angles.cos(), radius * angles.sin()], 1), label)


def objective(trial):
    torch.set_num_threads(1)
    torch.manual_seed(trial.number)
    loader = DataLoader(ConcentricRings().data, batch_size=64, shuffle=True, num_workers=trial.workers)
    model = torch.nn.Sequential(torch.nn.Linear(2, trial.hidden), torch.nn.Tanh(), torch.nn.Linear(trial.hidden, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=trial.learning_rate)
    for _epoch in range(2):
        for points, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return trial, loss.item()


def search(trials, executor):
    if executor == "pool":
        with mp.Pool(2) as pool:
            return pool.map(objective, trials)
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(objective, trials))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--loader-workers", type=int, default=1)
    parser.add_argument("--executor", choices=["pool", "futures"], default="pool")
    args = parser.parse_args()
    draw = random.Random(0)
    trials = [Trial(n, 10 ** draw.uniform(-3, 0), draw.choice([8, 16]), args.loader_workers) for n in range(args.trials)]
    best, loss = min(search(trials, args.executor), key=lambda result: result[1])
    print(f"best: {best} with {loss:.3f}")


if __name__ == "__main__":
    main()
