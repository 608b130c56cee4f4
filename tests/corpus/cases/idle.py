"""Jobs that nothing is wrong with, and that stand still or spin, as hung ones do. No torch."""
import asyncio
import concurrent.futures
import ctypes
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time

from hang_common import (LIBC, LIFE_S, Loader, NativeMutex, NativeReadLock, claim, expect, in_thread, run_kind,
                         train, until_one_is_at)


def sample(index):
    return bytes(1000)


def take(loader, count):
    """The first samples of an epoch."""
    samples = loader.samples()
    for _ in range(count):
        next(samples)
    return samples


def idle_pool(options):
    """A multiprocessing.Pool between two uses."""
    with multiprocessing.Pool(3) as pool:
        pool.map(pow_of_two, range(10))
        expect(1)
        claim("still")
        time.sleep(LIFE_S)


def pow_of_two(number):
    return 2 ** number


def busy_pool(options):
    """A Pool whose one task takes long; the others have nothing left to do."""
    with multiprocessing.Pool(3) as pool:
        expect(2)
        claim("still")
        pool.map(compute, [0, 0, 60], chunksize=1)


def compute(seconds):
    """Work in changing frames."""
    end = time.monotonic() + seconds
    if seconds:
        claim("busy")
    while time.monotonic() < end:
        sum(number * number for number in range(1000))


def idle_executor(options):
    """Threads of an executor that wait for work, in the trainer and in each worker."""
    pool = concurrent.futures.ThreadPoolExecutor(3)
    list(pool.map(pow_of_two, range(10)))

    def fetch(index):
        mine = concurrent.futures.ThreadPoolExecutor(2)
        list(mine.map(pow_of_two, range(4)))
        pools.append(mine)
        return index

    pools = []
    loader = Loader(fetch, options)
    samples = take(loader, 10)
    expect(1)
    claim("still")
    time.sleep(20)
    next(samples)


def executor_of_a_parked_server(options):
    """Idle threads of an executor, at whose SimpleQueue there is no lock; main parks until a signal ends it."""
    pool = concurrent.futures.ThreadPoolExecutor(3)
    list(pool.map(pow_of_two, range(10)))
    expect(1)
    claim("still")
    threading.Event().wait()


def process_executor(options):
    """ProcessPoolExecutor with one long task and idle processes."""
    with concurrent.futures.ProcessPoolExecutor(3) as pool:
        list(pool.map(pow_of_two, range(10)))
        expect(2)
        claim("still")
        pool.submit(compute, 60).result()


def slow_step(options):
    """The consumer is in a long step; the workers are parked behind it."""
    samples = take(Loader(sample, options), 10)
    expect(1)
    claim("still")
    time.sleep(20)
    next(samples)


def large_samples_behind_slow_step(options):
    """As slow_step; the samples fill the pipe, and the workers' feeder threads wait for room."""
    loader = Loader(lambda index: bytes(400_000), options)
    samples = take(loader, 4)
    until_one_is_at([worker.pid for worker in loader.workers], "pipe_write")
    expect(1)
    claim("still")
    time.sleep(20)
    next(samples)


def evaluation(options):
    """The trainer evaluates for long: it computes, and takes no samples."""
    samples = take(Loader(sample, options), 10)
    expect(1)
    compute(20)
    next(samples)


def evaluation_in_native_code(options):
    """As evaluation, within long native calls."""
    samples = take(Loader(sample, options), 10)
    values = [(index * 7919) % 1_000_003 for index in range(2_000_000)]
    expect(1)
    claim("busy")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        sorted(values)
    next(samples)


def program_beside(options):
    """The trainer waits for a program that it started."""
    samples = take(Loader(sample, options), 10)
    expect(1)
    claim("still")
    subprocess.run([sys.executable, "-c", "import time; time.sleep(20)"], check=True)
    next(samples)


def waits_for_input(options):
    """A notebook or prompt: the trainer waits for a line, with workers parked."""
    samples = take(Loader(sample, options), 10)
    expect(1)
    claim("still")
    sys.stdin.readline()
    next(samples)


def contended_threads(options):
    """Threads that quarrel over locks of each kind, and get them."""
    locks = [threading.Lock(), threading.RLock(), NativeMutex(), NativeReadLock()]

    def quarrel():
        while True:
            for lock in locks:
                lock.acquire()
                time.sleep(0.002)
                lock.release()

    expect(4)
    for _ in range(3):
        in_thread(lambda: (claim("moves"), quarrel()))
    claim("moves")
    train(Loader(sample, options))


def contended_processes(options):
    """Workers that quarrel over a multiprocessing lock."""
    lock = multiprocessing.Lock()

    def fetch(index):
        if index < options.workers:
            claim("moves")
        with lock:
            time.sleep(0.05)
        return index

    options.workers = 4
    expect(4)
    train(Loader(fetch, options))


def lock_held_by_someone_who_works(options):
    """One worker has the lock for long, and computes; the others wait."""
    lock = multiprocessing.Lock()
    taken = multiprocessing.Event()

    def fetch(index):
        if index == 0:
            with lock:
                taken.set()
                compute(60)
        taken.wait()
        if index < options.workers:
            claim("still")
        with lock:
            return index

    options.workers = 3
    expect(3)
    train(Loader(fetch, options))


def lock_held_by_someone_who_reads(options):
    """As before; the holder works in short pieces with pauses, as one that waits for storage."""
    lock = multiprocessing.Lock()
    taken = multiprocessing.Event()

    def fetch(index):
        if index == 0:
            with lock:
                taken.set()
                claim("moves")
                for _ in range(600):
                    time.sleep(0.05)
        taken.wait()
        if index < options.workers:
            claim("still")
        with lock:
            return index

    options.workers = 3
    expect(3)
    train(Loader(fetch, options))


def thread_lock_held_by_a_worker_thread(options):
    """A thread lock whose holder computes in native code without the GIL; main waits for it."""
    lock = threading.Lock()

    def fetch(index):
        if index < options.workers:
            taken = threading.Event()
            in_thread(hold_while_it_works, lock, taken)
            taken.wait()
            claim("still")
        with lock:
            return index

    expect(options.workers + 1)
    loader = Loader(fetch, options)
    claim("still")
    train(loader)


def hold_while_it_works(lock, taken):
    with lock:
        taken.set()
        compute(60)


def asyncio_trainer(options):
    """An event loop with a timer far away, and samples taken in its executor."""
    loader = Loader(sample, options)

    async def run():
        loop = asyncio.get_running_loop()
        samples = take(loader, 10)
        await loop.run_in_executor(None, next, samples)
        expect(1)
        claim("still")
        await asyncio.sleep(20)
        await loop.run_in_executor(None, next, samples)

    asyncio.run(run())


def asyncio_server(options):
    """An event loop that waits for requests, with parked workers."""
    samples = take(Loader(sample, options), 10)

    async def run():
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        expect(1)
        claim("still")
        await server.serve_forever()

    asyncio.run(run())
    next(samples)


def asyncio_sleep(options):
    """An event loop with nothing to do for a long while, but to be woken by its own socket pair."""
    samples = take(Loader(sample, options), 10)
    expect(1)
    claim("still")
    asyncio.run(asyncio.sleep(20))
    next(samples)


def asyncio_until_signal(options):
    """The same without a timeout: a handler of a signal ends it."""
    samples = take(Loader(sample, options), 10)

    async def run():
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        expect(1)
        claim("still")
        await stop.wait()

    asyncio.run(run())
    next(samples)


def manager(options):
    """A Manager's process, with its threads, and workers that use its list."""
    with multiprocessing.Manager() as server:
        shared = server.list()

        def fetch(index):
            shared.append(index)
            return len(shared)

        samples = take(Loader(fetch, options), 20)
        expect(1)
        claim("still")
        time.sleep(20)
        next(samples)


def spawned_workers(options):
    """Workers of spawn, idle."""
    samples = take(Loader(pow_of_two, options, "spawn"), 10)
    expect(1)
    claim("still")
    time.sleep(20)
    next(samples)


def forkserver_workers(options):
    """Workers of a forkserver, idle."""
    samples = take(Loader(pow_of_two, options, "forkserver"), 10)
    expect(1)
    claim("still")
    time.sleep(20)
    next(samples)


def threads_before_fork(options):
    """Threads ran and ended before the fork, and an idle OpenMP pool is left: no worker needs either."""
    library = ctypes.CDLL("libgomp.so.1")
    library.GOMP_parallel(ctypes.cast(LIBC.free, ctypes.c_void_p), None, 3, 0)
    thread = in_thread(pow_of_two, 10)
    thread.join()
    samples = take(Loader(sample, options), 10)
    expect(1)
    claim("still")
    time.sleep(20)
    next(samples)


def openmp_in_workers(options):
    """Each worker has an idle OpenMP pool of its own; the trainer had none at the fork."""
    library = ctypes.CDLL("libgomp.so.1")

    def fetch(index):
        library.GOMP_parallel(ctypes.cast(LIBC.free, ctypes.c_void_p), None, 3, 0)
        return index

    samples = take(Loader(fetch, options), 10)
    expect(1)
    claim("still")
    time.sleep(20)
    next(samples)


def prefetch_thread(options):
    """A thread of the trainer's takes samples ahead into a queue with a bound; the step is long."""
    ahead = queue.Queue(4)
    loader = Loader(sample, options)

    def run():
        for item in loader.samples():
            ahead.put(item)

    in_thread(run)
    while not ahead.full():
        time.sleep(0.01)
    expect(1)
    claim("still")
    time.sleep(20)
    ahead.get()


def starved_consumer_thread(options):
    """A background thread waits on an empty queue, a condition and an event, as writers of logs do."""
    empty, condition, event = queue.Queue(), threading.Condition(), threading.Event()

    def wait_for_condition():
        with condition:
            condition.wait()

    in_thread(empty.get)
    in_thread(wait_for_condition)
    in_thread(event.wait)
    expect(1)
    claim("moves")
    train(Loader(sample, options))


def joins_a_thread(options):
    """The main thread waits in join() for the thread that trains."""
    thread = in_thread(lambda: (claim("moves"), train(Loader(sample, options))))
    expect(2)
    claim("still")
    thread.join()


def barrier(options):
    """Workers that meet at a barrier, the last one comes late."""
    meet = multiprocessing.Barrier(options.workers)

    def fetch(index):
        if index % options.workers == 0:
            compute(0.3)
        meet.wait()
        return index

    expect(1)
    claim("moves")
    train(Loader(fetch, options))


def slow_pipe(options):
    """A worker reads a stream that brings a little every 100 ms."""
    reader, writer = os.pipe()

    def write():
        while True:
            os.write(writer, b"x" * 16)
            time.sleep(0.1)

    def fetch(index):
        return os.read(reader, 16)

    expect(1)
    loader = Loader(fetch, options)
    in_thread(write)
    claim("moves")
    train(loader)


def nothing_but_sleep(options):
    """A script that sleeps; it has no workers."""
    expect(1)
    claim("still")
    time.sleep(LIFE_S)


def one_epoch_done(options):
    """Workers were told to go and went; the trainer writes its checkpoint for long."""
    loader = Loader(sample, options)
    samples = take(loader, 10)
    del samples
    loader.close()
    expect(1)
    compute(20)


KINDS = {job.__name__.replace("_", "-"): job
         for job in (idle_pool, busy_pool, idle_executor, executor_of_a_parked_server, process_executor, slow_step, large_samples_behind_slow_step,
                     evaluation, evaluation_in_native_code, program_beside, waits_for_input, contended_threads,
                     contended_processes, lock_held_by_someone_who_works, lock_held_by_someone_who_reads,
                     thread_lock_held_by_a_worker_thread, asyncio_trainer, asyncio_server, asyncio_sleep,
                     asyncio_until_signal, manager, spawned_workers,
                     forkserver_workers, threads_before_fork, openmp_in_workers, prefetch_thread,
                     starved_consumer_thread, joins_a_thread, barrier, slow_pipe, nothing_but_sleep, one_epoch_done)}


if __name__ == "__main__":
    run_kind(__doc__, KINDS, "fork")
