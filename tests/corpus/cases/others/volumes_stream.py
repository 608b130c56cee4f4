"""Streams MRI volumes, cut into slabs by a generator, through a loader of spawned workers."""
import itertools
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

MIB = 1 << 20
CONFIG = {"slab_mib": 12, "slabs": 16, "seconds_per_slab": 0.25, "prefetch": 2, "seconds_per_step": 0.5}
CONFIG.update((name, float(value) if "." in value else int(value)) for name, value in (setting.split("=") for setting in sys.argv[1:]))


class Slabs(IterableDataset):
    def __init__(self, config):
        self.config = config

    def __iter__(self):
        info = get_worker_info()
        for number in itertools.islice(range(self.config["slabs"]), info.id, None, info.num_workers):
            time.sleep(self.config["seconds_per_slab"])
            yield torch.full((self.config["slab_mib"] * MIB // 4,), float(number))


def main(config):
    loader = DataLoader(Slabs(config), batch_size=None, num_workers=2, prefetch_factor=config["prefetch"],
                        multiprocessing_context="spawn")
    total = 0.0
    for slab in loader:
        total += slab.mean().item()
        time.sleep(config["seconds_per_step"])
    print("mean", total / config["slabs"])


if __name__ == "__main__":
    main(CONFIG)
