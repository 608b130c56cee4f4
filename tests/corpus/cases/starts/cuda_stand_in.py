"""A stand-in for a dataset that uses CUDA in a forked worker: usage cuda_stand_in.py [--healthy]. Without a GPU, what torch would
know of the fork is told it here; the refusal is torch's own."""
import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset

initialised_by = os.getpid()
torch.cuda._is_in_bad_fork = lambda: os.getpid() != initialised_by


class OnDevice(Dataset):
    def __init__(self, uses_cuda):
        self.uses_cuda = uses_cuda

    def __len__(self):
        return 16

    def __getitem__(self, index):
        sample = torch.zeros(8)
        if self.uses_cuda:
            torch.cuda.init()
        return sample


if __name__ == "__main__":
    for _batch in DataLoader(OnDevice("--healthy" not in sys.argv), batch_size=4, num_workers=2):
        pass
