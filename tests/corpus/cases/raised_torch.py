"""A data set that raises in a worker; with --healthy it is caught there."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Table(Dataset):
    def __init__(self, healthy):
        self.rows = {index: torch.zeros(3) for index in range(60)}
        self.healthy = healthy

    def __len__(self):
        return 64

    def __getitem__(self, index):
        try:
            return self.rows[index]
        except KeyError:
            if self.healthy:
                return torch.ones(3)
            raise


if __name__ == "__main__":
    for batch in DataLoader(Table("--healthy" in sys.argv), batch_size=4, num_workers=2):
        pass
