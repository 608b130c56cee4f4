#!/usr/bin/env python3
"""How long the static pass takes beside the interpreter's own start: `dlprobe spawn-recursion --static` on a program, in
turns with `python -c pass`.

    static_look.py DLPROBE PROGRAM [--python PYTHON ...] [--rounds N]

Printed per interpreter: the median times, and the median of the ratios of neighbouring rounds. Wanted: under 200 ms for a
program of some hundred lines. Not run by ctest: figures belong to a quiet machine.
"""
import argparse
import statistics
import subprocess
import sys
import time


def seconds_of(command):
    began = time.monotonic()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.monotonic() - began


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
        ratio = statistics.median(look / start for look, start in zip(looks, starts))
        print(f"{python}: {statistics.median(looks) * 1000:.0f} ms, python -c pass "
              f"{statistics.median(starts) * 1000:.0f} ms, ratio {ratio:.1f}")


if __name__ == "__main__":
    main()
