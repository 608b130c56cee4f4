#!/usr/bin/env python3
"""How good `dlprobe tune`'s recommendation is: its speed against the best of an exhaustive sweep of the same hour.

    tune_regret.py DLPROBE REFERENCE_LOADER [--repeats N] [--for DURATION] [--seconds S] [-- LOADER OPTIONS]

Each repeat runs `dlprobe tune` once, and then every setting of the exhaustive sweep (workers 0 to two more than there are
CPUs, prefetch factors 1, 2 and 4) once, measured here and not by dlprobe. The speed of a setting is the median of all
repeats. Printed: each recommendation, its regret (1 - its speed / the best speed), and how many are within 5 %. Wanted:
9 of 10. Not run by ctest: figures belong to a quiet machine.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys

PREFETCH_FACTORS = (1, 2, 4)


def settings():
    for workers in range(len(os.sched_getaffinity(0)) + 3):
        for prefetch in PREFETCH_FACTORS if workers else PREFETCH_FACTORS[:1]:
            yield workers, prefetch


def speed_of(loader, setting, seconds, options):
    """Batches per second of the steady state: after the first workers x prefetch batches, in whole turns of workers."""
    workers, prefetch = setting
    read_end, write_end = os.pipe()
    command = [loader, *options, "--workers", str(workers), "--prefetch-factor", str(prefetch), "--batches", "1000000",
               "--seed", str(random.randrange(1 << 30)), "--progress-fd", str(write_end)]
    with subprocess.Popen(command, pass_fds=[write_end], stdout=subprocess.DEVNULL) as process:
        os.close(write_end)
        times = []
        with os.fdopen(read_end, encoding="utf-8") as lines:
            for line in lines:
                entry = json.loads(line)
                if entry["event"] != "batch":
                    continue
                times.append(entry["at"] / 1e9)
                warm = times[max(workers * prefetch, 2) - 1:]
                if len(warm) > max(8, 2 * workers) and warm[-1] - warm[0] >= seconds:
                    break
            process.terminate()
            lines.read()
    turn = max(workers, 1)
    count = (len(warm) - 1) // turn * turn
    return count / (warm[count] - warm[0])


def recommendation(dlprobe, loader, budget, options):
    report = subprocess.run([dlprobe, "tune", "--json", "--for", budget, *options], stdout=subprocess.PIPE, check=True,
                            env={**os.environ, "DLPROBE_REFERENCE_LOADER": loader})
    tune = json.loads(report.stdout)["tune"]
    return tune["recommended"]["workers"], tune["recommended"]["prefetch_factor"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlprobe")
    parser.add_argument("loader")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--for", dest="budget", default="60s")
    parser.add_argument("--seconds", type=float, default=1.5)
    dashes = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:dashes])
    options = sys.argv[dashes + 1:]  # of the loader, the same for both
    speeds = {setting: [] for setting in settings()}
    chosen = []
    for repeat in range(arguments.repeats):
        chosen.append(recommendation(arguments.dlprobe, arguments.loader, arguments.budget, options))
        order = list(speeds) if repeat % 2 == 0 else list(reversed(speeds))
        for setting in order:
            speeds[setting].append(speed_of(arguments.loader, setting, arguments.seconds, options))
        print(f"repeat {repeat + 1}: {chosen[-1][0]} workers, prefetch factor {chosen[-1][1]}", file=sys.stderr, flush=True)
    medians = {setting: statistics.median(each) for setting, each in speeds.items()}
    for (workers, prefetch), speed in sorted(medians.items()):
        each = speeds[workers, prefetch]
        print(f"{workers} workers, prefetch factor {prefetch}: {speed:.2f} batches/s ({min(each):.2f} to {max(each):.2f})")
    best = max(medians.values())
    regrets = [1 - medians[one if one[0] else (0, PREFETCH_FACTORS[0])] / best for one in chosen]
    for (workers, prefetch), regret in zip(chosen, regrets):
        print(f"recommended {workers} workers, prefetch factor {prefetch}: {100 * regret:.1f} % below the best")
    good = sum(regret <= 0.05 for regret in regrets)
    print(f"{good} of {len(regrets)} recommendations within 5 % of the best of {len(medians)} settings (goal: 9 of 10)")


if __name__ == "__main__":
    main()
