"""Jobs without PyTorch that run into limits of descriptors and mappings, and their healthy twins."""
import argparse
import mmap
import multiprocessing
import os
import resource
import sys
import time


def soft_limit(count):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def mappings(options):
    """One mapping for each sample, up to vm.max_map_count, or a part of it."""
    with open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
        most = int(file.read())
    if most > 100_000:
        sys.exit("vm.max_map_count is too high for this job")
    wanted = most // 4 if options.healthy else most + 1
    kept = []
    for _ in range(wanted):
        try:
            kept.append(mmap.mmap(-1, mmap.PAGESIZE))  # shared: each is a mapping of its own
        except OSError:
            time.sleep(4)  # its users would find out later, too
            raise
    time.sleep(4)


class Leak:
    """What a worker of a pool does."""

    kept = []

    def __init__(self, healthy):
        self.healthy = healthy

    def __call__(self, _item):
        with open(__file__, "rb") as file:
            if not self.healthy:
                Leak.kept.append(os.dup(file.fileno()))
        time.sleep(0.01)
        return len(Leak.kept)


def pool(options):
    """A pool whose workers leak."""
    soft_limit(200)
    with multiprocessing.get_context("fork").Pool(2) as workers:
        for _ in workers.imap(Leak(options.healthy), range(800)):
            pass


JOBS = {job.__name__.replace("_", "-"): job for job in (mappings, pool)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("job", choices=JOBS)
    arguments.add_argument("--healthy", action="store_true")
    options = arguments.parse_args()
    JOBS[options.job](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
