"""A worker dies of SIGBUS that has nothing to do with shared memory: its mapped data file is cut off
under it. Twin: the file stays as it is."""
import mmap
import os
import tempfile

from common import MIB, Samples, make_loader, parser, train


class Mapped(Samples):
    """Reads a byte of a mapped file for each sample; at one sample the file is truncated first."""

    def __init__(self, count, mib, path, cut_at):
        super().__init__(count, mib)
        self.path = path
        self.cut_at = cut_at

    def __getitem__(self, index):
        with open(self.path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
            if index == self.cut_at:
                os.truncate(self.path, 0)
            if data[len(data) // 2] != 0:
                raise ValueError("the file should hold zeros")
        return super().__getitem__(index)


def main():
    options = parser(__doc__).parse_args()
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(MIB)
        count = options.batches * options.batch_size
        dataset = Mapped(count, options.sample_mib, file.name, -1 if options.healthy else count // 2)
        train(make_loader(options, dataset), options)


if __name__ == "__main__":
    main()
