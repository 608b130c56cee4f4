"""Pretraining on shards of tokens, read one after the other. Usage: shard_stream.py [all|own|dealt]"""
import os
import random
import sys
import tempfile

import torch
import torch.utils.data as tud

MODE = sys.argv[1] if len(sys.argv) > 1 else "all"
WORKERS = 3


def write_shards(folder):
    for shard in range(9):
        torch.save(torch.randint(0, 5000, (32, 65), generator=torch.Generator().manual_seed(shard)), f"{folder}/{shard:02}.pt")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


class Tokens(tud.IterableDataset):
    def __init__(self, shards):
        self.shards = list(shards)

    def __iter__(self):
        mine = list(self.shards)
        info = tud.get_worker_info()
        if MODE == "own" and info:
            mine = mine[info.id::info.num_workers]
        random.Random(1).shuffle(mine)
        for path in mine:
            rows = torch.load(path)
            if MODE == "dealt" and info:
                rows = rows[info.id::info.num_workers]
            for row in rows:
                yield row[:-1], row[1:]


with tempfile.TemporaryDirectory() as folder:
    loader = tud.DataLoader(Tokens(write_shards(folder)), batch_size=8, num_workers=WORKERS)
    embedding, head = torch.nn.Embedding(5000, 8), torch.nn.Linear(8, 5000)
    optimizer = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=0.1)
    for step, (inputs, targets) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(head(embedding(inputs)).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(step + 1, "steps, loss", round(loss.item(), 3))
