"""A loop in the manner of Lightning: a module, a data module, a trainer with validation after each epoch."""
import argparse

import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, Dataset


def use_files(_worker=None):
    torch.multiprocessing.set_sharing_strategy("file_system")


class Houses(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        rooms = torch.full((6,), index / 64)
        return rooms, rooms.sum(0, keepdim=True)


class HousesData:
    def __init__(self, args):
        self.args = args
        self.houses = Houses()

    def loader(self, shuffle):
        args = self.args
        return DataLoader(self.houses, 16, shuffle=shuffle, num_workers=2, multiprocessing_context=args.context,
                          worker_init_fn=use_files if args.files else None, persistent_workers=args.persistent)

    def train_dataloader(self):
        return self.loader(True)

    def val_dataloader(self):
        return self.loader(False)


class Regressor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(6, 1)

    def training_step(self, batch):
        rooms, price = batch
        return torch.nn.functional.mse_loss(self.net(rooms), price)

    validation_step = training_step


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, module, data):
        optimizer = torch.optim.Adam(module.parameters(), 0.01)
        train, val = data.train_dataloader(), data.val_dataloader()
        for epoch in range(self.max_epochs):
            for batch in train:
                optimizer.zero_grad()
                module.training_step(batch).backward()
                optimizer.step()
            with torch.no_grad():
                losses = [module.validation_step(batch).item() for batch in val]
            print(f"epoch {epoch}: {sum(losses) / len(losses):.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--context", default="spawn")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--persistent", action="store_true")
    options = parser.parse_args()
    if options.files:
        use_files()
    Trainer(1).fit(Regressor(), HousesData(options))
