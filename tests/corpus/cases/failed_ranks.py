"""Ranks of a distributed job (gloo) that fails by one of them. Twin: the same job, in which that one does as the others."""
import argparse
import datetime
import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS = 3
SOON = datetime.timedelta(seconds=6)


def meet():
    dist.init_process_group("gloo", timeout=SOON)


def reduce(count):
    for _ in range(count):
        dist.all_reduce(torch.ones(8))


def aborts(rank, options):
    """Rank 1 checks what it has, and gives up."""
    meet()
    reduce(3)
    if rank == 1 and not options.healthy:
        os.abort()
    reduce(3)


def exits(rank, options):
    """Rank 1 checks what it has, and leaves."""
    meet()
    reduce(3)
    if rank == 1 and not options.healthy:
        sys.exit(3)
    reduce(3)


def left(rank, options):
    """Rank 2 has nothing to do."""
    if rank == 2 and not options.healthy:
        return
    meet()
    reduce(3)


def absent(_rank, _options):
    """Nobody starts rank 2."""
    meet()
    reduce(3)


def save(seconds):
    time.sleep(seconds)


def late(rank, options):
    """Rank 1 saves for longer than the others wait."""
    meet()
    reduce(3)
    if rank == 1:
        save(2 if options.healthy else 20)
    reduce(3)
    dist.destroy_process_group()


def monitored(rank, options):
    """The same of a barrier with a timeout of its own."""
    dist.init_process_group("gloo")
    reduce(3)
    if rank == 1:
        save(2 if options.healthy else 20)
    dist.monitored_barrier(timeout=SOON)
    dist.destroy_process_group()


def taken(_rank, _options):
    """Another service of the machine listens where they meet."""
    meet()
    dist.destroy_process_group()


def twice(_rank, _options):
    """All but the first have the settings of the first."""
    meet()
    dist.destroy_process_group()


def gather(rank, options, port):
    """The last batch of rank 1 has fewer rows."""
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for rows in (8, 8, 5 if rank == 1 and not options.healthy else 8):
        ours = torch.rand(rows, 512)
        dist.all_gather([torch.empty_like(ours) for _ in range(2)], ours)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start_ranks(options):
    """As a script does that knows of no launcher."""
    count = RANKS - 1 if options.kind == "absent" and not options.healthy else RANKS
    with socket.socket() as service:
        service.bind(("127.0.0.1", 0))
        if options.kind == "taken" and not options.healthy:
            service.listen()
        port = service.getsockname()[1] if options.kind == "taken" and not options.healthy else free_port()
        shared = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS), OMP_NUM_THREADS="1")
        numbers = [0] * count if options.kind == "twice" and not options.healthy else range(count)
        ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(shared, RANK=str(number))) for number in numbers]
        if options.kind == "taken" and ranks[0].wait():
            for each in ranks[1:]:
                each.terminate()  # the service never answers them
        sys.exit(int(any([each.wait() for each in ranks])))


JOBS = {"aborts": aborts, "exits": exits, "left": left, "absent": absent, "late": late, "monitored": monitored, "taken": taken,
        "twice": twice}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["gather", *JOBS])
    parser.add_argument("--healthy", action="store_true", help="the twin that nothing is wrong with")
    options = parser.parse_args()
    if options.kind == "gather":
        return torch.multiprocessing.spawn(gather, (options, free_port()), nprocs=2)
    if "RANK" not in os.environ:
        return start_ranks(options)
    return JOBS[options.kind](int(os.environ["RANK"]), options)


if __name__ == "__main__":
    main()
