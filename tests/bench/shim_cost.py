#!/usr/bin/env python3
"""What an override costs an interpreter's start: `python -c pass` under `dlprobe run` with one and without, in turns.

    shim_cost.py DLPROBE [--python PYTHON ...] [--rounds N]

Printed per interpreter: the medians, and the median of the differences of neighbouring rounds. Wanted: 5 ms or less. Not run
by ctest: figures belong to a quiet machine.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time


def seconds_of(command):
    began = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - began


def inner_seconds(command, log):
    """The interpreter's own time from its start to its program: dlprobe's is left out."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    with open(log, encoding="ascii") as file:
        return float(file.read())


# Its age when the program begins, on the clock on which the kernel has the process's start (in ticks: rounds average).
AGE = ("import os, sys, time; f = open('/proc/self/stat', 'rb'); t = int(f.read().rpartition(b')')[2].split()[19]);"
       "open(sys.argv[1], 'w').write(str(time.clock_gettime(7) - t / os.sysconf('SC_CLK_TCK')))")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlprobe")
    parser.add_argument("--python", action="append")
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    for python in options.python or ["/usr/bin/python3"]:
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "age")
            with_shim = [options.dlprobe, "run", "--start-method", "spawn", "--", python, "-c", AGE, log]
            without = [options.dlprobe, "run", "--", python, "-c", AGE, log]
            pairs = [(inner_seconds(with_shim, log), inner_seconds(without, log)) for _ in range(options.rounds)]
            whole = [(seconds_of(with_shim), seconds_of(without)) for _ in range(options.rounds)]
        for name, rows in (("to its program", pairs), ("whole command", whole)):
            differences = [1000 * (shim - alone) for shim, alone in rows]
            print(f"{python}, {name}: {1000 * statistics.median(row[0] for row in rows):.1f} ms with an override, "
                  f"{1000 * statistics.median(row[1] for row in rows):.1f} ms without, mean difference "
                  f"{statistics.mean(differences):.1f} ms, median {statistics.median(differences):.1f} ms (goal: 5)", flush=True)


if __name__ == "__main__":
    main()
