#!/usr/bin/env python3
"""Speaker verification: each batch holds utterances of different speakers, so that all others are negatives."""
import argparse
import random

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler


class Utterances(Dataset):
    def __init__(self, count, speakers):
        generator = torch.Generator().manual_seed(7)
        self.speaker = torch.randint(speakers, (count,), generator=generator).tolist()
        self.voice = torch.randn(speakers, 40, generator=generator)

    def __len__(self):
        return len(self.speaker)

    def __getitem__(self, i):
        return self.voice[self.speaker[i]] + 0.1 * torch.randn(200, 40), self.speaker[i]


class OneUtterancePerSpeaker(Sampler):
    """Draws utterances, and puts back those whose speaker is in the batch already."""

    def __init__(self, speaker_of, batch_size, batches):
        self.speaker_of, self.batch_size, self.batches = speaker_of, batch_size, batches

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            batch = {}
            while len(batch) < self.batch_size:
                utterance = random.randrange(len(self.speaker_of))
                batch.setdefault(self.speaker_of[utterance], utterance)
            yield list(batch.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speakers", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches", type=int, default=150)
    opt = parser.parse_args()
    data = Utterances(4000, opt.speakers)
    sampler = OneUtterancePerSpeaker(data.speaker, opt.batch_size, opt.batches)
    net = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 32))
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    for step, (frames, speaker) in enumerate(DataLoader(data, batch_sampler=sampler, num_workers=2)):
        left, right = (F.normalize(net(half).mean(1), dim=1) for half in frames.chunk(2, dim=1))
        loss = F.cross_entropy(10 * left @ right.T, torch.arange(len(speaker)))
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
