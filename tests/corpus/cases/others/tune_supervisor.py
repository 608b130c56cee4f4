"""Tries settings one after the other, each in a process group of its own that is killed when its time is over."""
import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import time


def simulate(seed):
    time.sleep(0.1)
    return (seed * 2654435761) % 97 / 97


def trial(rate, rounds):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for _ in range(rounds):
            score = max(pool.map(simulate, range(int(rate * 100), int(rate * 100) + 4)))
    print(f"rate {rate}: {score:.3f}", flush=True)


def supervise(args):
    for rate in args.rates:
        command = [sys.executable, __file__, "--trial", str(rate), "--rounds", str(args.rounds)]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            process.wait(args.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, getattr(signal, args.signal))
            process.wait()
            print(f"rate {rate}: out of time", flush=True)
    time.sleep(args.report)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.2])
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--signal", default="SIGKILL")
    parser.add_argument("--report", type=float, default=4)
    parser.add_argument("--trial", type=float)
    args = parser.parse_args()
    if args.trial is None:
        supervise(args)
    else:
        trial(args.trial, args.rounds)


if __name__ == "__main__":
    main()
