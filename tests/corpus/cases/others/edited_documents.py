"""Documents with their history of edits. They travel compact, and become text where they are used."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset

STRIDE = int(sys.argv[1]) if len(sys.argv) > 1 else 1     # revisions that one edit stands for
REVISIONS = 40


class Document:
    def __init__(self, number):
        self.words = [number * 31 % 997]
        self.revision = 0

    def apply_next_edit(self):
        self.words = [(word * 7 + 1) % 997 for word in self.words[-64:]] + [self.revision]
        self.revision += STRIDE

    def __getstate__(self):
        return self.words[0]

    def __setstate__(self, first):
        self.words, self.revision = [first], 0
        while self.revision != REVISIONS:
            self.apply_next_edit()


class Corpus(Dataset):
    def __len__(self):
        return 3000

    def __getitem__(self, number):
        return Document(number)


counts = torch.zeros(1000)
for documents in DataLoader(Corpus(), batch_size=20, num_workers=3, collate_fn=list):
    for document in documents:
        counts += torch.bincount(torch.tensor(document.words), minlength=1000)
print("most frequent words", counts.topk(5).indices.tolist())
