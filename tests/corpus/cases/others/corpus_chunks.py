"""Counts tokens of a corpus on shared storage: a pool reads byte ranges of it."""
import argparse
import os
from collections import Counter
from multiprocessing import get_context


def ranges(path, size):
    end = os.path.getsize(path)
    for start in range(0, end, size):
        yield path, start, min(size, end - start)


def count(chunk):
    path, start, length = chunk
    with open(path, "rb") as corpus:
        corpus.seek(start)
        return Counter(corpus.read(length).split())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--chunk", type=int, default=1 << 16)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    vocabulary = Counter()
    with get_context("fork").Pool(args.processes) as pool:
        for counts in pool.imap_unordered(count, ranges(args.corpus, args.chunk)):
            vocabulary.update(counts)
    print(len(vocabulary), "tokens")


if __name__ == "__main__":
    main()
