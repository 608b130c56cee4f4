"""Clips for action recognition. The dataset reads ahead in a thread of its own, since seeking in a video is slow."""
import argparse
import logging
import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger(__name__)


class ReadAhead:
    """Decodes the frames that will be asked for next."""

    def __init__(self, decode, depth=8):
        self.decode = decode
        self.wanted, self.ready = queue.Queue(), queue.Queue(depth)
        self.thread = threading.Thread(target=self.run, name="read-ahead", daemon=True)
        self.thread.start()

    def run(self):
        while True:
            self.ready.put(self.decode(self.wanted.get()))

    def __call__(self, index):
        self.wanted.put(index)
        return self.ready.get()


class Clips(Dataset):
    def __init__(self, count, frames, lazy):
        self.count, self.frames = count, frames
        self.reader = None if lazy else ReadAhead(self.decode)

    def decode(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.rand(3, self.frames, 16, 16, generator=generator)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.reader is None:
            self.reader = ReadAhead(self.decode)
        return self.reader(index), index % 5


class ClipNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(3, 8, 3, stride=2)
        self.classify = nn.Linear(8, 5)

    def forward(self, clips):
        return self.classify(self.conv(clips).mean((2, 3, 4)))


def run_epoch(model, loader, optimizer):
    losses = []
    for clips, labels in loader:
        loss = nn.functional.cross_entropy(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lazy", action="store_true", help="start the thread at the first clip")
    args = parser.parse_args()
    logging.basicConfig(level="INFO", format="%(asctime)s %(name)s %(message)s")
    torch.set_num_threads(1)
    model = ClipNet()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Clips(args.clips, args.frames, args.lazy), batch_size=4, shuffle=True, num_workers=args.workers,
                        persistent_workers=args.workers > 0)
    for epoch in range(args.epochs):
        logger.info("epoch %d: %.3f", epoch, run_epoch(model, loader, optimizer))


if __name__ == "__main__":
    main()
