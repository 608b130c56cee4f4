#!/usr/bin/env python3
"""How long the static pass takes beside the interpreter's own start: `dlprobe spawn-recursion --static` on a program, in
turns with `python -c pass`.

    static_look.py DLPROBE PROGRAM [--python PYTHON ...] [--rounds N]

Printed per interpreter: the median times, that of the CPU time (of dlprobe and the interpreter together), and the median of
the ratios of neighbouring rounds. Wanted: under 200 ms of CPU time for a program of some thousand lines. Not run by
ctest: figures belong to a quiet machine.
"""
import argparse
import resource
import statistics
import subprocess
import sys
import time


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds_of(command):
    """Of the wall clock, and of CPU time."""
    began, used = time.monotonic(), cpu_of_children()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.monotonic() - began, cpu_of_children() - used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlprobe")
    parser.add_argument("program")
    parser.add_argument("--python", action="append")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    for python in options.python or [sys.executable]:
        looks, starts = [], []
        for _ in range(options.rounds):
            starts.append(seconds_of([python, "-c", "pass"]))
            looks.append(seconds_of([options.dlprobe, "spawn-recursion", "--static", "--", python, options.program]))
        ratio = statistics.median(look[0] / start[0] for look, start in zip(looks, starts))
        wall, cpu = (statistics.median(part) * 1000 for part in zip(*looks))
        print(f"{python}: {wall:.0f} ms, {cpu:.0f} ms of CPU, python -c pass "
              f"{statistics.median(start[0] for start in starts) * 1000:.0f} ms, ratio {ratio:.1f}")


if __name__ == "__main__":
    main()
