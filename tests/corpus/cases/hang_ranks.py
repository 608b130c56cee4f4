"""Ranks of a distributed job (gloo) that wait for one of them. Twin: the same job, in which that one comes.

The job starts its ranks as a launcher does, by RANK and its kin; each that is to stand still says so.
"""
import fcntl
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from hang_common import claim, expect, parser

RANKS = 3


def loader(count=4000):
    return DataLoader(TensorDataset(torch.rand(count, 8)), batch_size=4, num_workers=1)


def step(healthy):
    """One that all ranks take, again and again if nothing is wrong."""
    claim("moves" if healthy else "still")
    total = torch.ones(8)
    while True:
        dist.all_reduce(total)
        time.sleep(0.01)


def slowest(rank, options):
    """Rank 1 computes longer than the others, in each step."""
    claim("moves")
    while True:
        if rank == 1 and not options.healthy:
            until = time.monotonic() + 0.3
            while time.monotonic() < until:
                pass
        dist.all_reduce(torch.ones(8))
        time.sleep(0.01)


def gathers_alone(rank, options):
    """Rank 0 alone validates, and gathers what it found from all."""
    for (batch,) in loader(40):
        dist.all_reduce(batch)
    if not options.healthy:
        claim("still")
        for (batch,) in loader(40) if rank == 0 else ():
            dist.all_gather([torch.zeros(4, 8) for _ in range(RANKS)], batch)
        dist.barrier()
    step(options.healthy)


def asleep(rank, options):
    """Rank 1 uploads something, without end."""
    if rank == 1 and not options.healthy:
        claim("still")
        time.sleep(600)
    step(options.healthy)


def mismatch(rank, options):
    if rank == 1 and not options.healthy:
        claim("still")
        dist.broadcast(torch.ones(8), src=2)
    step(options.healthy)


def uneven(rank, options):
    """Rank 1 has fewer batches than the others."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    for (batch,) in loader(40 if rank == 1 and not options.healthy else 4000):
        if batch.sum() < 0:
            break
        model(batch).sum().backward()
        if options.healthy:
            break
        if rank != 1:
            tell_once()
    claim("moves" if options.healthy else "still")
    dist.barrier()
    step(options.healthy)


_told = []


def tell_once():
    """A rank that will stand still within its loop."""
    if not _told:
        _told.append(True)
        claim("still")


def read_batches(rank, options, wait):
    """A worker of rank 1 waits in the middle of a batch."""
    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            if rank == 1 and index == 50 and not options.healthy:
                wait()
            return torch.ones(8)

    for batch in DataLoader(Samples(), batch_size=5, num_workers=1):
        dist.all_reduce(batch)
        if options.healthy:
            break
        tell_once()
    step(options.healthy)


def loader_stuck(rank, options):
    """For a pipe that nobody writes."""
    read_batches(rank, options, lambda: os.read(os.pipe()[0], 1))


def asked(rank, options):
    """For an answer of its rank, which waits for that batch."""
    connections = multiprocessing.Pipe()
    read_batches(rank, options, connections[1].recv)


def messages(rank, options):
    """Ranks 0 and 1 wait for a message of each other, rank 2 for both."""
    if rank < 2 and not options.healthy:
        claim("still")
        dist.recv(torch.ones(8), src=1 - rank)
    step(options.healthy)


def crosswise(rank, options):
    """Two threads of rank 1 take two locks, each the other one first."""
    locks, met = [threading.Lock(), threading.Lock()], threading.Barrier(2)

    def take(first, second):
        with first:
            met.wait()
            with second:
                pass

    if rank == 1 and not options.healthy:
        threading.Thread(target=take, args=locks, daemon=True).start()
        claim("still")
        take(*reversed(locks))
    step(options.healthy)


def file_lock(rank, options):
    """Rank 0 has a lock of a file, and waits for rank 1, which wants it."""
    with open(os.path.join(os.environ["TMPDIR"], "download.lock"), "w", encoding="ascii") as file:
        if rank == 0:
            fcntl.flock(file, fcntl.LOCK_EX)
        dist.barrier()
        if rank == 1 and not options.healthy:
            claim("still")
            fcntl.flock(file, fcntl.LOCK_EX)
        step(options.healthy)


def stand_at_third(rank, options, operation, polls=False):
    """All take part in it again and again; rank 1 stands still before the third time, others poll or sleep."""
    for turn in range(10**9):
        if turn == 3:
            claim("moves" if options.healthy or (polls and rank != 1) else "still")
            if rank == 1 and not options.healthy:
                time.sleep(600)
        operation()
        time.sleep(0.01)


def autograd_thread(rank, options):
    """The collective is in a hook, which runs in a thread of autograd: passes are nested deeper than one thread
    takes them (Engine::MAX_DEPTH)."""
    class Reduce(torch.autograd.Function):
        @staticmethod
        def forward(_, value):
            return value.clone()

        @staticmethod
        def backward(_, gradient):
            dist.all_reduce(gradient)
            return gradient

    def deep(value, depth):
        if depth == 0:
            return Reduce.apply(value)
        return checkpoint(deep, value, depth - 1, use_reentrant=True) * 1.0

    stand_at_third(rank, options, lambda: deep(torch.ones(3, requires_grad=True), 64).sum().backward())


def work(rank, options):
    stand_at_third(rank, options, lambda: dist.all_reduce(torch.ones(8), async_op=True).wait())


def store(rank, options):
    """Ranks tell one another by the store that each of them has come."""
    keys, turn = dist.distributed_c10d._get_default_store(), iter(range(10**9))

    def meet():
        name = f"turn-{next(turn)}"
        keys.set(f"{name}-{rank}", "here")
        keys.wait([f"{name}-{each}" for each in range(RANKS)])

    stand_at_third(rank, options, meet)


def sharded(rank, options):
    """FSDP: on the CPU its hooks run in the thread that calls backward()."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    model = FullyShardedDataParallel(torch.nn.Linear(8, 8), device_id=torch.device("cpu"))
    stand_at_third(rank, options, lambda: model(torch.rand(4, 8)).sum().backward())


def dumped(rank, options):
    """Each rank writes what PyTorch's Flight Recorder has, twice a second, as NCCL's watchdog does at a timeout."""
    from torch._C._distributed_c10d import _dump_fr_trace

    def write():
        name = f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}"
        while True:
            with open(f"{name}.part", "wb") as file:
                file.write(_dump_fr_trace())
            os.rename(f"{name}.part", name)
            time.sleep(0.5)

    threading.Thread(target=write, daemon=True).start()
    stand_at_third(rank, options, lambda: dist.all_reduce(torch.ones(8)))


def polled(rank, options):
    """Each asks again and again whether its collective is complete."""

    def meet():
        work = dist.all_reduce(torch.ones(8), async_op=True)
        while not work.is_completed():
            time.sleep(0.05)

    stand_at_third(rank, options, meet, polls=True)


def call(rank, options):
    """Rank 0 waits for the result of a function that rank 1 carries out."""
    rpc.init_rpc(str(rank), rank=rank, world_size=RANKS)
    if rank == 0:
        claim("moves" if options.healthy else "still")
        while True:
            rpc.rpc_sync("1", answer, args=(options.healthy,), timeout=0)
            time.sleep(0.01)
    rpc.shutdown(timeout=0)


def answer(healthy):
    if not healthy:
        time.sleep(600)


def files(rank, options):
    """A barrier made of files, to which rank 1 does not come."""
    for turn in range(10**9):
        path = os.path.join(os.environ["TMPDIR"], f"turn-{turn}-")
        if turn == 3:
            claim("moves" if options.healthy or rank != 1 else "still")
            if rank == 1 and not options.healthy:
                time.sleep(600)
        with open(f"{path}{rank}", "w", encoding="ascii"):
            pass
        while not all(os.path.exists(f"{path}{each}") for each in range(RANKS)):
            time.sleep(0.02)


def missing(rank, options):
    """Rank 1 has ended before the others could meet it."""


KINDS = {"asleep": asleep, "mismatch": mismatch, "uneven": uneven, "loader-stuck": loader_stuck, "missing": missing,
         "autograd-thread": autograd_thread, "work": work, "store": store, "sharded": sharded, "unnamed": asleep,
         "dumped": dumped, "polled": polled, "call": call, "files": files, "asked": asked, "messages": messages,
         "crosswise": crosswise, "file-lock": file_lock, "slowest": slowest, "gathers-alone": gathers_alone}


def train(options):
    if options.kind == "unnamed":  # no launcher has told anything
        rank, port = int(os.environ["NUMBER"]), os.environ["MEETS_AT"]
        dist.init_process_group("gloo", rank=rank, world_size=RANKS, init_method=f"tcp://127.0.0.1:{port}")
        KINDS[options.kind](rank, options)
    rank = int(os.environ["RANK"])
    if options.kind == "missing" and not options.healthy:
        if rank == 1:
            os._exit(3)
        if rank == 2:  # who has the store polls
            claim("still")
    if options.kind != "call":
        dist.init_process_group("gloo")
    KINDS[options.kind](rank, options)
    step(options.healthy)


def variables(options, rank, port):
    if options.kind == "unnamed":
        return {"NUMBER": str(rank), "MEETS_AT": str(port)}
    # In the job's own /dev/shm: dlprobe has to look there as the ranks see it.
    recorder = {"TORCH_FR_BUFFER_SIZE": "100", "TORCH_FR_DUMP_TEMP_FILE": "/dev/shm/dump_"} if options.kind == "dumped" else {}
    return {**recorder, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def launch(options):
    claims = {"call": 1, **({} if options.healthy else {"missing": 1, "loader-stuck": 2, "asked": 2})}
    expect(claims.get(options.kind, RANKS))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1",
                                                                **variables(options, rank, port)})
             for rank in range(RANKS)]
    for rank in ranks:
        rank.wait()


if __name__ == "__main__":
    chosen = parser(__doc__, KINDS).parse_args()
    if "RANK" in os.environ or "NUMBER" in os.environ:
        torch.set_num_threads(1)
        train(chosen)
    else:
        launch(chosen)
