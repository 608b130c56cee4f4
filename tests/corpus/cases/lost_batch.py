"""A shortage in the worker's feeder thread: with a collate_fn of the user's own the batch is moved to
shared memory by the queue's thread, which prints its exception and drops the batch. The training
loop then waits for ever. A cache that the dataset keeps in /dev/shm takes the last byte.

Twin: the cache leaves room.
"""
import errno
import os
import time

import torch

from common import MIB, Samples, make_loader, parser, removed_at_exit, train

CACHE = "/dev/shm/sample-cache"


class Caching(Samples):
    """Fills /dev/shm with a cache at one sample."""

    def __init__(self, count, mib, keep_free):
        super().__init__(count, mib)
        self.keep_free = keep_free

    def __getitem__(self, index):
        if index == self.count // 2:
            time.sleep(0.5)  # meanwhile everything on its way arrives, and nothing is freed any more
            fill(CACHE, self.keep_free)
        return super().__getitem__(index)


def fill(path, keep_free):
    """Writes to `path` until only `keep_free` bytes are left."""
    with open(path, "wb", buffering=0) as cache:
        for chunk in (bytes(MIB), bytes(4096)):
            while free_bytes() - len(chunk) >= keep_free:
                try:
                    cache.write(chunk)
                except OSError as error:
                    if error.errno == errno.ENOSPC:
                        break
                    raise


def free_bytes():
    use = os.statvfs("/dev/shm")
    return use.f_bavail * use.f_frsize


def collate(samples):
    """Does not write to shared memory itself, unlike the default one in a worker."""
    return torch.stack([data for data, _ in samples]), torch.tensor([label for _, label in samples])


def main():
    options = parser(__doc__).parse_args()
    keep_free = 32 * MIB if options.healthy else 0
    with removed_at_exit(CACHE):
        dataset = Caching(options.batches * options.batch_size, options.sample_mib, keep_free)
        train(make_loader(options, dataset, collate_fn=collate), options)


if __name__ == "__main__":
    main()
