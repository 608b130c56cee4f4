"""Fine-tunes a clip classifier: clips of 32 frames, as a map-style data set of a class."""
import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __init__(self, count, side):
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.15)  # decoding
        return torch.full((32, 3, self.side, self.side), index / self.count), index % 5


class Trainer:
    def __init__(self, args):
        self.args = args
        self.head = torch.nn.Linear(3, 5)
        self.optimizer = torch.optim.SGD(self.head.parameters(), lr=0.1)

    def training_step(self, batch):
        clips, labels = batch
        loss = torch.nn.functional.cross_entropy(self.head(clips.mean((1, 3, 4))), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self):
        loader = DataLoader(Clips(self.args.clips, self.args.side), batch_size=1, num_workers=self.args.workers)
        for step, batch in enumerate(loader):
            loss = self.training_step(batch)
            time.sleep(self.args.step)
            print(f"step {step}: {loss:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--side", type=int, default=184)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step", type=float, default=0)
    Trainer(parser.parse_args()).fit()
