"""Windows of a genome from a mapped file, encoded by a joblib-like pool: workers get offsets, parents get counts.

The reference is a file of bases; `--refresh` is the lab's nightly job that writes it anew."""
import argparse
import collections
import mmap
import os
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

_genome = None


def open_genome(path, copy):
    global _genome
    with open(path, "rb") as file:
        _genome = file.read() if copy else mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def count(offset, width):
    time.sleep(0.003)
    return collections.Counter(_genome[offset:offset + width])


def write_genome(path, size):
    with open(path, "wb") as file:
        for _ in range(size // 65536):
            file.write(bytes(random.choices(b"ACGT", k=64)) * 1024)


def refresh(path, how):
    if how == "in-place":
        open(path, "wb").close()
        time.sleep(30)
    elif how == "rename":
        write_genome(path + ".new", 1 << 20)
        os.replace(path + ".new", path)


def parallel(calls, workers, path, copy):
    with ProcessPoolExecutor(workers, initializer=open_genome, initargs=(path, copy)) as pool:
        futures = [pool.submit(count, *call) for call in calls]
        for future in as_completed(futures):
            yield future.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--refresh", choices=["in-place", "rename", "no"], default="in-place")
    parser.add_argument("--in-memory", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "reference.seq")
        write_genome(path, 4 << 20)
        calls = [(random.randrange(4 << 20), 4096) for _ in range(1500)]
        nightly = os.fork() if args.refresh != "no" else 0
        if args.refresh != "no" and nightly == 0:
            time.sleep(1)
            refresh(path, args.refresh)
            os._exit(0)
        total = collections.Counter()
        for counter in parallel(calls, args.jobs, path, args.in_memory):
            total += counter
        print({chr(base): times for base, times in sorted(total.items())})
        if nightly:
            os.waitpid(nightly, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
