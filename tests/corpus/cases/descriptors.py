"""Jobs that run out of descriptors, by the job's own fault or the limit's, and jobs that only look so."""
import functools
import os
import resource
import socket
import sys
import tempfile
import time

import torch
from torch.utils.data import Dataset

from common import make_loader, parser, say

FILES = 64  # of the bounded cache


class Small(Dataset):
    """Samples of one KiB, and what a sample opens. The rows of a batch are `tensors` tensors."""

    def __init__(self, count, leak, sleep_ms):
        self.count = count
        self.leak = leak
        self.sleep_ms = sleep_ms
        self.kept = []
        self.opened = None  # a cache cannot be pickled: each worker makes its own

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        if self.leak == "files":
            self.kept.append(tempfile.TemporaryFile())
        elif self.leak == "sockets":
            self.kept.append(socket.socketpair())
        elif self.leak == "sockets-closed":
            for _ in range(20):
                for end in socket.socketpair():
                    end.close()
        elif self.leak == "cache":
            self.opened = self.opened or functools.lru_cache(maxsize=FILES)(OpenFile)
            self.opened(index)
        time.sleep(self.sleep_ms / 1000)
        return torch.full((256,), float(index)), index


class OpenFile:
    """A file that is open for as long as this object lives."""

    def __init__(self, _index):
        self.fd = os.open(__file__, os.O_RDONLY)

    def __del__(self):
        os.close(self.fd)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--limit", type=int, default=256, help="soft limit of descriptors")
    arguments.add_argument("--leak", default="", choices=["", "files", "sockets", "sockets-closed", "cache"])
    arguments.add_argument("--keep", type=int, default=0, help="how many batches the training loop keeps")
    arguments.add_argument("--prefetch", type=int, default=2)
    arguments.add_argument("--sample-ms", type=int, default=0)
    arguments.add_argument("--first-step-ms", type=int, default=0, help="the workers get ahead meanwhile")
    options = arguments.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (options.limit, hard))
    dataset = Small(options.batches * options.batch_size, options.leak, options.sample_ms)
    kept = []
    for number, batch in enumerate(make_loader(options, dataset, prefetch_factor=options.prefetch)):
        kept = (kept + [batch])[-options.keep:] if options.keep else []
        time.sleep((options.step_ms if number else options.first_step_ms or options.step_ms) / 1000)
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
