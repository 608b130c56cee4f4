"""Keeps a large table of user vectors in memory, in blocks as it grows, and scores it by forked workers."""
import argparse
import mmap
import multiprocessing
import os


class Table:
    """Blocks of anonymous memory; a block takes memory as its rows are written."""

    def __init__(self, share, blocks):
        size = int(os.sysconf("SC_PHYS_PAGES") * share / blocks) * os.sysconf("SC_PAGE_SIZE")
        self.blocks = [mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(blocks)]

    def write(self, user, vector):
        block = self.blocks[user % len(self.blocks)]
        at = user // len(self.blocks) * len(vector)
        block[at:at + len(vector)] = vector

    def first_byte(self, user, length=16):
        return self.blocks[user % len(self.blocks)][user // len(self.blocks) * length]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.2, help="of the machine's memory")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--start", default="fork")
    parser.add_argument("--users", type=int, default=1000)
    args = parser.parse_args()
    table = Table(args.share, args.blocks)
    for user in range(args.users):
        table.write(user, bytes([user % 256]) * 16)
    with multiprocessing.get_context(args.start).Pool(2) as pool:
        print("score", sum(pool.map(abs, [table.first_byte(user) for user in range(args.users)])))


if __name__ == "__main__":
    main()
