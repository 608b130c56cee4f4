#!/usr/bin/env python3
"""What `dlprobe run` costs a job: throughput of PyTorch's DataLoader under it and alone, in turns.

    run_cost.py DLPROBE [--python PYTHON ...] [--rounds N] [--workers N]

The job decodes nothing: each sample fills a tensor, so that the machinery of the loader (queues, shared memory, pickling)
has the largest share that it can have. Printed per interpreter: the median rates, the median of the ratios of neighbouring
rounds, and their spread. Wanted: 0.99 or more. Not run by ctest: figures belong to a quiet machine.
"""
import argparse
import json
import statistics
import subprocess

JOB = r"""
import json, sys, time, torch
from torch.utils.data import DataLoader, Dataset
class Samples(Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, index): return torch.full((3, 64, 64), float(index))
if __name__ == "__main__":
    torch.set_num_threads(1)
    batches = iter(DataLoader(Samples(), batch_size=32, num_workers=int(sys.argv[1])))
    for _ in range(20): next(batches)
    began, count = time.monotonic(), 0
    while time.monotonic() - began < float(sys.argv[2]):
        next(batches)
        count += 32
    print(json.dumps(count / (time.monotonic() - began)))
"""


def rate_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlprobe")
    parser.add_argument("--python", action="append")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    for python in options.python or ["/usr/bin/python3"]:
        job = [python, "-c", JOB, str(options.workers), str(options.seconds)]
        version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE,
                                 text=True, check=True).stdout.strip()
        pairs = []
        for turn in range(options.rounds):
            commands = [job, [options.dlprobe, "run", "--", *job]]
            first = turn % 2  # so that neither is always the second one
            rates = {first: rate_of(commands[first])}
            rates[1 - first] = rate_of(commands[1 - first])
            pairs.append((rates[1], rates[0]))
        ratios = [under / alone for under, alone in pairs]
        print(f"torch {version}: {statistics.median(under for under, _ in pairs):.0f} samples/s under dlprobe run, "
              f"{statistics.median(alone for _, alone in pairs):.0f} alone, ratio {statistics.median(ratios):.3f} "
              f"(pairs {min(ratios):.3f} to {max(ratios):.3f}; goal: 0.99)", flush=True)


if __name__ == "__main__":
    main()
