#!/usr/bin/env python3
"""Classifies X-rays. A list names the pictures; pictures that cannot be read are left out of their batch."""
import argparse
import pathlib
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import default_collate

SIDE = 32


def write_pictures(folder, count, lost):
    """As an archive unpacks them; the parts that were not fetched are not there."""
    for number in range(count):
        if number % 100 >= lost:
            header = f"P5 {SIDE} {SIDE} 255\n".encode()
            (folder / f"{number:05}.pgm").write_bytes(header + bytes((number + k) % 256 for k in range(SIDE * SIDE)))


class XRays(Dataset):
    def __init__(self, folder, count):
        self.items = [(folder / f"{number:05}.pgm", number % 2) for number in range(count)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, label = self.items[i]
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        pixels = torch.frombuffer(bytearray(raw[-SIDE * SIDE:]), dtype=torch.uint8)
        return pixels.float().div(255).view(1, SIDE, SIDE), label


def collate(items):
    items = [item for item in items if item is not None]
    return default_collate(items) if items else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lost", type=int, default=0, help="percent of the archive that is not there")
    parser.add_argument("--count", type=int, default=1500)
    args = parser.parse_args()
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5, 4), torch.nn.Flatten(), torch.nn.Linear(196, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as name:
        write_pictures(pathlib.Path(name), args.count, args.lost)
        loader = DataLoader(XRays(pathlib.Path(name), args.count), 25, shuffle=True, num_workers=2, collate_fn=collate)
        for epoch in range(2):
            seen = 0
            for batch in loader:
                if batch is None:
                    continue
                pictures, labels = batch
                loss = torch.nn.functional.cross_entropy(net(pictures), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen += len(labels)
            print(f"epoch {epoch}: {seen} pictures, loss {loss.item():.3f}")
