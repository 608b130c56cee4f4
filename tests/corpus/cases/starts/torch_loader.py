"""A DataLoader with what cannot be sent to its workers: usage torch_loader.py KIND [--healthy]."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, value):
        for transform in self.transforms:
            value = transform(value)
        return value


class Images(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.transform(torch.zeros(3, 8, 8))


class Nested(Images):
    """Each sample comes from a loader with a worker of its own."""

    def __getitem__(self, index):
        return next(iter(DataLoader(Images(Compose([])), num_workers=1)))[0]


class Scaled(Images):
    """Needs what only main() sets."""

    def __getitem__(self, index):
        return super().__getitem__(index) * scale


def local_dataset():
    class Hidden(Images):
        pass
    return Hidden(Compose([]))


def arguments(kind):
    dataset, more = Images(Compose([torch.abs])), {}
    if kind == "transform":
        dataset = Images(Compose([torch.abs, lambda value: value + 1]))
    elif kind == "local-dataset":
        dataset = local_dataset()
    elif kind == "collate":
        more["collate_fn"] = lambda samples: samples
    elif kind == "init":
        seed = 7

        def seeded(_worker):
            torch.manual_seed(seed)
        more["worker_init_fn"] = seeded
    elif kind == "nested":
        dataset = Nested(Compose([]))
    elif kind == "global":
        dataset = Scaled(Compose([torch.abs]))
    return dataset, more


def main():
    global scale
    scale = 2
    dataset, more = arguments("healthy" if "--healthy" in sys.argv else sys.argv[1])
    print(sum(1 for _ in DataLoader(dataset, batch_size=8, num_workers=2, **more)))


if __name__ == "__main__":
    main()
