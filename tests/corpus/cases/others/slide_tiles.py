"""Cuts tiles out of scanned slides; opened slides are kept in a cache, one for each worker of an executor."""
import argparse
import functools
import multiprocessing
import os
import resource
import tempfile
from concurrent.futures import ProcessPoolExecutor


class Slide:
    def __init__(self, path):
        self.levels = [open(path, "rb", buffering=0) for _level in range(4)]

    def tile(self, at):
        return b"".join(os.pread(level.fileno(), 64, at) for level in self.levels)


@functools.lru_cache(maxsize=None)
def cached_slide(path):
    return Slide(path)


def count_tissue(job):
    path, is_cached = job
    slide = cached_slide(path) if is_cached else Slide(path)
    return sum(slide.tile(at)[0] > 100 for at in range(0, 4096, 64))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slides", type=int, default=120)
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--files", type=int, default=128, help="limit, as on the cluster")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (args.files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"slide-{number}.svs") for number in range(args.slides)]
        for path in paths:
            with open(path, "wb") as file:
                file.write(os.urandom(8192))
        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
            jobs = [(path, not args.no_cache) for path in paths]
            print("tissue:", sum(executor.map(count_tissue, jobs, chunksize=10)))


if __name__ == "__main__":
    main()
