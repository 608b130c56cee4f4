"""A trainer with more memory of its own than the kernel grants once more: fork is refused, with memory free.

Needs vm.overcommit_memory=2. The twin starts its worker by spawn, which copies nothing.
"""
import argparse
import mmap
import multiprocessing
import sys
import time


def kib(name):
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))


def work():
    time.sleep(1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--healthy", action="store_true", help="the twin that nothing is wrong with")
    options = arguments.parse_args()
    size = (kib("CommitLimit") - kib("Committed_AS")) * 6 // 10
    if size > kib("MemAvailable") * 6 // 10:
        sys.exit("the limit leaves more than this machine's memory")
    samples = mmap.mmap(-1, size << 10, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    samples.madvise(mmap.MADV_HUGEPAGE)
    for page in range(0, len(samples), mmap.PAGESIZE):
        samples[page] = 1
    time.sleep(2)
    worker = multiprocessing.get_context("spawn" if options.healthy else "fork").Process(target=work)
    worker.start()
    worker.join()
    return worker.exitcode


if __name__ == "__main__":
    sys.exit(main())
