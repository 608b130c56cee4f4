"""Workers read a file of a storage that does not answer (slow_storage.py beside). No torch.

Twin: it answers.
"""
import os
import time

from hang_common import Loader, claim, expect, parser, train
from slow_storage import FOLDER

FILE = os.path.join(FOLDER, "data")


def read(_options):
    """A worker's read of a page that has to come from the storage."""
    descriptor = os.open(FILE, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(descriptor, 4096, 0)
    os.close(descriptor)


KINDS = {"read": read}


def main():
    options = parser(__doc__, KINDS).parse_args()

    def fetch(index):
        if index < options.workers:
            claim("moves" if options.healthy else "still")
        KINDS[options.kind](options)
        time.sleep(0.002)
        return index

    expect(options.workers)
    train(Loader(fetch, options))


if __name__ == "__main__":
    main()
