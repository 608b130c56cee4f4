"""A launcher of one's own: starts this script once for each rank, which train by it."""
import argparse
import os
import subprocess
import sys


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--rank-variable", default="RANK")
    parser.add_argument("--steps", type=int, default=50)
    return parser.parse_args()


def launch(args):
    print(f"{os.getpid()}: starting {args.nproc} ranks", flush=True)
    ranks = []
    for rank in range(args.nproc):
        environment = {**os.environ, args.rank_variable: str(rank), "WORLD_SIZE": str(args.nproc)}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    return max(rank.wait() for rank in ranks)


def train(rank, steps):
    weight = 0.0
    for step in range(steps):
        weight += (1 - weight) * 0.1
    print(f"rank {rank}: {weight:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    options = parse()
    local_rank = os.environ.get("LOCAL_RANK")
    sys.exit(launch(options) if local_rank is None else train(int(local_rank), options.steps))
