"""Sorts events that do not fit into memory: sorted runs go to temporary files of forked workers, and are merged. The scratch disk is
what a prolog of the cluster makes for each job."""
import argparse
import contextlib
import heapq
import multiprocessing
import os
import random
import subprocess
import tempfile


def make_scratch(size):
    folder = tempfile.mkdtemp(prefix="scratch-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "scratch", folder], check=True)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    return folder


def sorted_run(job):
    seed, count = job
    draw = random.Random(seed)
    handle, path = tempfile.mkstemp(suffix=".run")
    with os.fdopen(handle, "w") as file:
        for value in sorted(draw.randrange(10**9) for _ in range(count)):
            file.write(f"{value:09}{'x' * 90}\n")
    return path


def merge(paths):
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(open(path)) for path in paths]
        return sum(1 for _ in heapq.merge(*runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", default="4m")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--events", type=int, default=10_000)
    args = parser.parse_args()
    make_scratch(args.scratch)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        paths = list(pool.imap_unordered(sorted_run, [(seed, args.events) for seed in range(args.runs)]))
    print(merge(paths), "events")
    for path in paths:
        os.unlink(path)


if __name__ == "__main__":
    main()
