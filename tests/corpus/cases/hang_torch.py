"""Hangs in PyTorch's DataLoader. Twin: the same job without the one mistake."""
import asyncio
import os
import signal
import socket
import sys
import tempfile
import threading
import time

if any(argument.startswith("spinning") for argument in sys.argv):
    os.environ["OMP_WAIT_POLICY"] = "active"  # libgomp reads it when it is loaded

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from hang_common import NativeMutex, claim, expect, in_thread, run_kind, say, until_one_is_at


class Samples(Dataset):
    """`count` samples; `prepare(index)` runs first for each."""

    def __init__(self, prepare=None, count=100_000, size=1000):
        self.prepare = prepare
        self.count = count
        self.size = size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.prepare:
            self.prepare(index)
        return torch.full((self.size,), float(index))


def loader_of(options, dataset, **changes):
    arguments = {"batch_size": 4, "num_workers": options.workers, "multiprocessing_context": "fork"}
    return DataLoader(dataset, **{**arguments, **changes})


def train(loader):
    for batch in loader:
        batch.sum().item()
        time.sleep(0.01)


def reduce():
    """A reduction of enough elements to be done by a team of libgomp's, which waits blocked."""
    torch.rand(4_000_000).sum()


def multiply():
    """A product of matrices. MKL waits for a lost team blocked, or in a loop of sched_yield: as the CPU has it."""
    matrix = torch.rand(600, 600)
    matrix @ matrix


def lost_pool(options, operation, where, word):
    """The pool's threads were started by the trainer before the fork."""
    torch.set_num_threads(2)
    operation()
    threads = 1 if options.healthy else 2

    def use(index):
        if index < options.workers:
            claim("moves" if options.healthy else word)
        if index < options.workers or options.healthy:
            torch.set_num_threads(threads)
            operation()

    changes = {"worker_init_fn": use} if where == "init" else {"batch_size": 1}
    expect(options.workers + 1)
    loader = loader_of(options, Samples(use if where == "getitem" else None), **changes)
    claim("moves" if options.healthy else "still")
    train(loader)


def lock_at_fork(options, make, after=0):
    """A lock that another thread holds at the fork; each worker takes it after that many samples."""
    lock = make()
    taken, let_go = threading.Event(), threading.Event()

    def hold():
        lock.acquire()
        taken.set()
        let_go.wait()
        lock.release()

    thread = in_thread(hold)
    taken.wait()
    if options.healthy:
        let_go.set()
        thread.join()

    def use(index):
        # Each worker takes one sample of each round.
        if index // options.workers < after:
            return
        if index // options.workers == after:
            claim("moves" if options.healthy else "still")
        lock.acquire()
        lock.release()

    expect(options.workers + 1)
    loader = loader_of(options, Samples(use), batch_size=1)
    claim("moves" if options.healthy else "still")
    train(loader)


def each_first_sample(options, act, word="still"):
    """A job in which each worker does something at its first sample."""

    def prepare(index):
        if index < options.workers:
            claim("moves" if options.healthy else word)
            if not options.healthy:
                act()

    expect(options.workers + 1)
    loader = loader_of(options, Samples(prepare), batch_size=1)
    claim("moves" if options.healthy else "still")
    train(loader)


def stopped(options):
    each_first_sample(options, lambda: os.kill(os.getpid(), signal.SIGSTOP))


def busy_without_end(options):
    def loop():
        while True:
            pass

    each_first_sample(options, loop, "busy")


def slow_sample(options):
    def work():
        end = time.monotonic() + 60
        while time.monotonic() < end:
            torch.rand(64, 64).sort()
            sum(number * number for number in range(500))

    each_first_sample(options, work, "busy")


def fifo_without_writer(options):
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "data")
    os.mkfifo(path)

    def read():
        with open(path, "rb"):
            pass

    each_first_sample(options, read)


def pipe_in_a_sample(options):
    """A pipe of the data set's, whose ends all have inherited, and which nobody writes but in the twin."""
    reader, writer = os.pipe()

    def use(index):
        if index < options.workers:
            claim("moves" if options.healthy else "still")
        if options.healthy:
            os.write(writer, b"x")
        os.read(reader, 1)

    expect(options.workers + 1)
    loader = loader_of(options, Samples(use), batch_size=1)
    claim("moves" if options.healthy else "still")
    train(loader)


def orphans(options):
    """The trainer is killed; its workers hold both ends of the results' pipe, and their samples do not fit it."""
    loader = loader_of(options, Samples(), batch_size=1, collate_fn=lambda samples: bytes(400_000), prefetch_factor=8)
    batches = iter(loader)
    next(batches)
    expect(1 if options.healthy else 2)
    if options.healthy:
        claim("moves")
        for _ in batches:
            time.sleep(0.01)
    say(f"attach {batches._workers[0].pid}")
    first = batches._workers[0].pid
    # One at a time writes; the others wait for their turn.
    until_one_is_at([worker.pid for worker in batches._workers], "pipe_write")
    say(f"at-futex {first}")
    os.kill(os.getpid(), signal.SIGKILL)


def orphan_in_a_sample(options):
    """The trainer is killed while its workers wait in a sample for a server that does not answer."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(8)

    def read(_index):
        with socket.create_connection(server.getsockname()) as connection:
            connection.recv(1)

    loader = loader_of(options, Samples() if options.healthy else Samples(read))
    batches = iter(loader)
    expect(1 if options.healthy else 2)
    if options.healthy:
        claim("moves")
        for _ in batches:
            time.sleep(0.01)
    first = batches._workers[0].pid
    say(f"attach {first}")
    until_one_is_at([first], "wait_woken")
    say(f"still {first}")
    os.kill(os.getpid(), signal.SIGKILL)


def stuck_consumer(options, step):
    batches = iter(loader_of(options, Samples()))
    for _ in range(4):
        next(batches)
    expect(1)
    claim("moves" if options.healthy else "still")
    while True:
        if not options.healthy:
            step()
        next(batches)
        time.sleep(0.01)


def consumer_at_a_lock(options):
    lock = threading.Lock()
    lock.acquire()
    stuck_consumer(options, lock.acquire)


def consumer_at_a_socket(options):
    """Waits for a peer that is itself."""
    mine, _other = socket.socketpair()
    stuck_consumer(options, lambda: mine.recv(16))


def idle_pools(options):
    """OpenMP pools in the trainer, none of them used by a worker; the step is long."""
    torch.set_num_threads(2)
    reduce()
    multiply()
    parked(options)


def lost_pool_unused(options):
    """Workers that would ask for two threads, and never do; the twin is a plain job, whose workers ask for one."""
    torch.set_num_threads(2)
    reduce()
    changes = {} if options.healthy else {"worker_init_fn": lambda _: torch.set_num_threads(2)}
    expect(1)
    loader = loader_of(options, Samples(size=10), **changes)
    claim("moves")
    train(loader)


def shared_position(options):
    """Samples come out of a file that the data set had opened; the twin opens it in each worker."""
    data = tempfile.NamedTemporaryFile()
    data.write(os.urandom(1 << 20))
    data.flush()
    handles = [open(data.name, "rb")]

    def read(index):
        if options.healthy and len(handles) == 1:
            handles.append(open(data.name, "rb"))
        time.sleep(0.001)
        handles[-1].seek(index * 7919 % ((1 << 20) - 4096))
        handles[-1].read(1000)

    expect(1)
    loader = loader_of(options, Samples(read))
    claim("moves")
    train(loader)


def parked(options, **changes):
    """The consumer is in a long step."""
    batches = iter(loader_of(options, Samples(), **changes))
    for _ in range(4):
        next(batches)
    expect(1)
    claim("still")
    time.sleep(25)
    next(batches)


def persistent(options):
    """Persistent workers between two epochs."""
    loader = loader_of(options, Samples(count=40), persistent_workers=True)
    train(loader)
    expect(1)
    claim("still")
    time.sleep(25)
    train(loader)


class DrawUntil(Sampler):
    """Draws until `is_enough` is true of the number that were drawn, with a pause before each."""

    def __init__(self, is_enough, before=lambda: None):
        self.is_enough = is_enough
        self.before = before

    def __iter__(self):
        drawn = 0
        while True:
            self.before()
            if not self.is_enough(drawn):
                drawn += 1
                yield drawn % 1000


def sampler_without_end(options):
    """It waits for a class that no sample has, and yields nothing more."""
    loops = 0

    def is_enough(drawn):
        nonlocal loops
        if options.healthy or drawn < 400:
            return False
        loops += 1
        if loops == 1:
            claim("busy")
        return True

    expect(1)
    if options.healthy:
        claim("moves")
    train(loader_of(options, Samples(), sampler=DrawUntil(is_enough)))


def coroutines(options):
    """In a worker: one of them keeps what the others wait for."""

    async def ask(slots, index):
        await slots.acquire()
        await asyncio.sleep(0.001)
        if options.healthy or index < 100:
            slots.release()

    async def ask_for_all(index):
        slots = asyncio.Semaphore(1)
        await asyncio.gather(ask(slots, index), ask(slots, index))

    def prepare(index):
        if index == 100:
            claim("moves" if options.healthy else "still")
        asyncio.run(ask_for_all(index))

    expect(1)
    train(loader_of(options, Samples(prepare)))


def slow_sampler(options):
    """It computes all the time, and finds an index now and then."""

    def search():
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            sum(range(1000))

    expect(1)
    claim("busy")
    train(loader_of(options, Samples(), sampler=DrawUntil(lambda drawn: False, search)))


def evaluation_without_workers(options):
    """The loader of the evaluation has no workers; those of the training loader wait for the next epoch."""

    def prepare(index):
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            sum(range(1000))

    loader = loader_of(options, Samples(count=40), persistent_workers=True)
    train(loader)
    expect(1)
    claim("busy")
    train(DataLoader(Samples(prepare, count=120), batch_size=4))
    train(loader)


def spawned(options):
    parked(options, multiprocessing_context="spawn")


def of_forkserver(options):
    parked(options, multiprocessing_context="forkserver")


def two_loaders(options):
    """Training stands still while the second loader validates."""
    batches = iter(loader_of(options, Samples()))
    next(batches)
    expect(1)
    claim("moves")
    train(loader_of(options, Samples()))


def evaluation(options):
    """The trainer computes for long, on all its threads."""
    torch.set_num_threads(2)
    batches = iter(loader_of(options, Samples()))
    next(batches)
    expect(1)
    claim("busy")
    matrix = torch.rand(400, 400)
    end = time.monotonic() + 25
    while time.monotonic() < end:
        matrix = (matrix @ matrix).softmax(0)
    next(batches)


def backward(options):
    """Training with autograd's threads, on two OpenMP threads."""
    torch.set_num_threads(2)
    model = torch.nn.Linear(1000, 1000)
    batches = iter(loader_of(options, Samples()))
    expect(1)
    claim("moves")
    for batch in batches:
        model(batch / 1e5).sum().backward()


def collective(options):
    """Two ranks with gloo; one is late at the barrier, as after an uneven shard."""
    port_file = tempfile.NamedTemporaryFile()
    other = os.fork()
    rank = 1 if other == 0 else 0
    torch.distributed.init_process_group("gloo", init_method=f"file://{port_file.name}", rank=rank, world_size=2)
    batches = iter(loader_of(options, Samples()))
    next(batches)
    if rank == 0:
        expect(2)
        claim("still")
    else:
        claim("busy")
        end = time.monotonic() + 25
        while time.monotonic() < end:
            torch.rand(64, 64).sort()
    torch.distributed.barrier()
    next(batches)


KINDS = {
    "reduce-init": lambda options: lost_pool(options, reduce, "init", "still"),
    "reduce-getitem": lambda options: lost_pool(options, reduce, "getitem", "still"),
    "multiply-init": lambda options: lost_pool(options, multiply, "init", "waits"),
    "multiply-getitem": lambda options: lost_pool(options, multiply, "getitem", "waits"),
    "spinning-reduce": lambda options: lost_pool(options, reduce, "getitem", "busy"),
    "native-lock": lambda options: lock_at_fork(options, NativeMutex),
    "lock": lambda options: lock_at_fork(options, threading.Lock),
    "rlock": lambda options: lock_at_fork(options, threading.RLock),
    # By then a worker serves the descriptors of the tensors that it has sent.
    "lock-later": lambda options: lock_at_fork(options, threading.Lock, after=20),
    "pipe-in-a-sample": pipe_in_a_sample,
    "stopped": stopped, "busy-without-end": busy_without_end, "slow-sample": slow_sample,
    "fifo-without-writer": fifo_without_writer, "orphans": orphans, "orphan-in-a-sample": orphan_in_a_sample, "consumer-at-a-lock": consumer_at_a_lock,
    "consumer-at-a-socket": consumer_at_a_socket, "idle-pools": idle_pools, "parked": parked,
    "persistent": persistent, "spawned": spawned, "of-forkserver": of_forkserver, "two-loaders": two_loaders,
    "lost-pool-unused": lost_pool_unused, "shared-position": shared_position,
    "evaluation": evaluation, "backward": backward, "collective": collective,
    "sampler-without-end": sampler_without_end, "slow-sampler": slow_sampler, "coroutines": coroutines,
    "evaluation-without-workers": evaluation_without_workers}


if __name__ == "__main__":
    run_kind(__doc__, KINDS)
