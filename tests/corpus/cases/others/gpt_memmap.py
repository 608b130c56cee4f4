"""
Poor man's GPT data pipeline: tokens of a corpus in shards of uint16 on disk, random windows from np.memmap.

$ python gpt_memmap.py                 # train
$ python gpt_memmap.py --fresh-maps    # a new memmap for each window, against the leak described in stackoverflow 45132940
$ python gpt_memmap.py --hold 100000   # recent windows are kept for replay
"""
import argparse
import os
import tempfile
from collections import deque

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--block-size", type=int, default=128)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--iters", type=int, default=400)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--shards", type=int, default=4)
parser.add_argument("--fresh-maps", action="store_true")
parser.add_argument("--hold", type=int, default=0, help="windows that a worker keeps for replay")
args = parser.parse_args()


def write_corpus(folder):
    for shard in range(args.shards):
        tokens = np.random.default_rng(shard).integers(0, 50257, 1 << 18, dtype=np.uint16)
        tokens.tofile(os.path.join(folder, f"train_{shard:03}.bin"))


class Windows(IterableDataset):
    def __init__(self, folder):
        self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        self.maps = {}

    def shard(self, path):
        if args.fresh_maps:
            return np.memmap(path, dtype=np.uint16, mode="r")
        if path not in self.maps:
            self.maps[path] = np.memmap(path, dtype=np.uint16, mode="r")
        return self.maps[path]

    def __iter__(self):
        rng = np.random.default_rng(get_worker_info().id if get_worker_info() else 0)
        replay = deque(maxlen=args.hold or 1)
        while True:
            data = self.shard(self.paths[rng.integers(len(self.paths))])
            start = rng.integers(len(data) - args.block_size - 1)
            window = data[start:start + args.block_size + 1]
            replay.append(window)
            if rng.random() < 0.1:
                window = replay[rng.integers(len(replay))]
            tokens = torch.from_numpy(window.astype(np.int64))
            yield tokens[:-1].clone(), tokens[1:].clone()


def train(folder):
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Embedding(50257, 4), torch.nn.Linear(4, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    loader = DataLoader(Windows(folder), batch_size=args.batch_size, num_workers=args.workers)
    for iteration, (x, y) in zip(range(args.iters), loader):
        loss = (model(x).mean(-1) - y.float() / 50257).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if iteration % 100 == 0:
            print(f"iter {iteration}: loss {loss.item():.4f}", flush=True)


with tempfile.TemporaryDirectory() as corpus:
    write_corpus(corpus)
    train(corpus)
