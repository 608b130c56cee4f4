"""Masked language model on token blocks, in the shape of a Lightning module without Lightning."""
import argparse
import logging
import time
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("pretrain")


def use_sharing(strategy, _worker=None):
    torch.multiprocessing.set_sharing_strategy(strategy)


class TokenBlocks(Dataset):
    def __init__(self, blocks, length, fields):
        self.blocks, self.length, self.fields = blocks, length, fields

    def __len__(self):
        return self.blocks

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(0, 1000, (self.length,), generator=generator)
        return {f"field_{number}": ids + number for number in range(self.fields)}


class MaskedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(2000, 16)
        self.head = nn.Linear(16, 1)

    def training_step(self, batch):
        return self.head(self.embed(batch["field_0"])).mean()

    def on_train_epoch_end(self, seconds):
        log.info("epoch took %.1f s", seconds)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.outputs = []

    def fit(self, model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _epoch in range(self.args.epochs):
            began = time.monotonic()
            for batch in loader:
                loss = model.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.remember(batch, loss)
            model.on_train_epoch_end(time.monotonic() - began)

    def remember(self, batch, loss):
        if self.args.keep == "batch":
            self.outputs.append({"loss": loss.detach(), "batch": batch})
        elif self.args.keep == "copy":
            self.outputs.append({"loss": loss.detach(), "batch": {key: value.clone() for key, value in batch.items()}})
        else:
            self.outputs.append({"loss": loss.item()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=2400)
    parser.add_argument("--fields", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--context", default="fork")
    parser.add_argument("--sharing", default="file_descriptor")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--keep", choices=["batch", "copy", "loss"], default="loss", help="of each step, for the end of training")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    use_sharing(args.sharing)
    loader = DataLoader(TokenBlocks(args.blocks, args.length, args.fields), batch_size=args.batch_size,
                        num_workers=args.workers, multiprocessing_context=args.context if args.workers else None,
                        worker_init_fn=partial(use_sharing, args.sharing), persistent_workers=args.persistent)
    Trainer(args).fit(MaskedModel(), loader)


if __name__ == "__main__":
    main()
