"""Trains on sampled neighbourhoods of a graph: a batch is a dict of index tensors, a few for each kind of edge."""
import argparse
import time

import torch
from torch.utils.data import DataLoader

EDGE_KINDS = ["cites", "writes", "affiliated", "has_topic", "rev_cites", "rev_writes"]


class NeighbourSampler:
    """As a collate_fn: seeds in, subgraph out."""

    def __init__(self, nodes, fan_out):
        self.nodes, self.fan_out = nodes, fan_out

    def __call__(self, seeds):
        seeds = torch.tensor(seeds)
        graph = {"seeds": seeds}
        for kind in EDGE_KINDS:
            sources = torch.randint(self.nodes, (len(seeds) * self.fan_out,))
            graph[kind, "edge_index"] = torch.stack([sources, seeds.repeat_interleave(self.fan_out)])
            graph[kind, "edge_id"] = torch.arange(len(sources))
        return graph


def epoch(loader, embedding, seconds):
    for step, graph in enumerate(loader):
        loss = sum(embedding(graph[kind, "edge_index"]).mean() for kind in EDGE_KINDS)
        loss.backward()
        time.sleep(seconds if step else 3)  # the first step compiles
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=640)
    parser.add_argument("--prefetch", type=int, default=8)
    parser.add_argument("--step-seconds", type=float, default=0.02)
    args = parser.parse_args()
    loader = DataLoader(range(args.seeds), batch_size=16, shuffle=True, num_workers=2, prefetch_factor=args.prefetch,
                        collate_fn=NeighbourSampler(args.nodes, 4))
    embedding = torch.nn.Embedding(args.nodes, 8)
    print("loss", epoch(loader, embedding, args.step_seconds))


if __name__ == "__main__":
    main()
