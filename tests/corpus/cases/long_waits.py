"""Jobs that nothing is wrong with, in which something waits for long: for a signal, a slow producer, a lock whose
holder works, a pipe that nobody is going to write to and that is meant so. No torch."""
import ctypes
import fcntl
import io
import logging
import multiprocessing
import os
import queue
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from hang_common import LIBC, LIFE_S, Loader, NativeMutex, claim, expect, in_thread, run_kind, train
from idle import compute, sample, take


def log_listener(options):
    """A thread collects log lines from a queue; the workers that wrote to it have left."""
    lines = multiprocessing.Queue()
    loader = Loader(lambda index: lines.put("sample"), options)
    take(loader, 4)
    loader.close()

    def listen():
        while True:
            lines.get()

    in_thread(listen)
    expect(1)
    compute(20)


def copy_of_a_held_lock(options):
    """The locks were held at the fork, and no worker ever wants them."""
    mutex, lock, taken = NativeMutex(), threading.Lock(), threading.Event()

    def hold():
        mutex.acquire()
        with lock:
            taken.set()
            end = time.monotonic() + LIFE_S
            while time.monotonic() < end:
                sum(number * number for number in range(1000))
                time.sleep(0.01)

    in_thread(hold)
    taken.wait()
    loader = Loader(sample, options)
    expect(1)
    claim("moves")
    train(loader)


def logging_at_fork(options):
    """logging makes its own locks anew after a fork: a worker may log."""
    log = logging.getLogger("job")
    handler = logging.StreamHandler(io.StringIO())
    log.addHandler(handler)
    taken, let_go = threading.Event(), threading.Event()

    def hold():
        handler.acquire()
        taken.set()
        let_go.wait()
        handler.release()

    in_thread(hold)
    taken.wait()

    def fetch(index):
        log.warning("sample %d", index)
        return index

    loader = Loader(fetch, options)
    expect(1)
    claim("moves")
    train(loader)


def main_waits_for_event(options):
    """A service: a thread trains, the main thread waits for the signal to stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    in_thread(lambda: (claim("moves"), train(Loader(sample, options))))
    expect(2)
    claim("still")
    stop.wait()


def waits_for_signal(options):
    """As before, in pause(), with parked workers."""
    samples = take(Loader(sample, options), 10)
    signal.signal(signal.SIGTERM, lambda *_: None)
    expect(1)
    claim("still")
    signal.pause()
    next(samples)


def slow_producer(options):
    """A thread brings an item every 20 s; the main thread waits for it at a queue.Queue."""
    items = queue.Queue()

    def produce():
        while True:
            time.sleep(20)
            items.put(1)

    in_thread(produce)
    samples = take(Loader(sample, options), 10)
    expect(1)
    claim("still")
    items.get()
    next(samples)


def slow_producer_process(options):
    """A process computes 20 s for an item of a multiprocessing queue; others wait for it there."""
    items = multiprocessing.Queue()

    def produce():
        while True:
            compute(20)
            items.put(1)

    def consume():
        claim("still")
        items.get()

    expect(1 + options.workers)
    processes = [multiprocessing.Process(target=each) for each in [produce] + [consume] * options.workers]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def workers_wait_for_event(options):
    """Workers wait for a multiprocessing event that the trainer sets after a long computation."""
    start = multiprocessing.Event()

    def fetch(index):
        if index < options.workers:
            claim("still")
        start.wait()
        return index

    loader = Loader(fetch, options)
    for _ in range(options.workers):
        loader.send()
    expect(options.workers + 1)
    compute(20)
    start.set()


def semaphore_as_signal(options):
    """A semaphore that one process takes and another gives: nobody holds it."""
    slots = multiprocessing.Semaphore(2)

    def fetch(index):
        if index >= 2:
            claim("still")
        slots.acquire()
        return index

    loader = Loader(fetch, options)
    for _ in range(4):
        loader.send()
    loader.take()
    loader.take()
    expect(3)
    compute(20)
    slots.release()


def lock_as_signal(options):
    """A multiprocessing lock that the trainer took and will give back after a long step."""
    gate = multiprocessing.Lock()
    gate.acquire()

    def fetch(index):
        if index < options.workers:
            claim("still")
        with gate:
            return index

    loader = Loader(fetch, options)
    for _ in range(options.workers):
        loader.send()
    expect(options.workers + 1)
    claim("still")
    time.sleep(20)
    gate.release()


def native_lock_holder_sleeps(options):
    """A worker's main thread waits for a mutex whose owner sleeps for some seconds more."""
    mutex = NativeMutex()

    def hold(taken):
        mutex.acquire()
        taken.set()
        LIBC.sleep(30)
        mutex.release()

    def fetch(index):
        if index < options.workers:
            taken = threading.Event()
            in_thread(hold, taken)
            taken.wait()
            claim("still")
        mutex.acquire()
        mutex.release()
        return index

    expect(options.workers)
    train(Loader(fetch, options))


def file_lock(options):
    """Workers wait for a file lock whose holder works."""
    with tempfile.NamedTemporaryFile() as file:
        taken = multiprocessing.Event()

        def fetch(index):
            with open(file.name, "rb") as mine:
                if index != 0:
                    taken.wait()
                if 0 < index < 3:
                    claim("still")
                fcntl.flock(mine, fcntl.LOCK_EX)
                if index == 0:
                    taken.set()
                    compute(60)
            return index

        options.workers = 3
        expect(3)
        train(Loader(fetch, options))


def program_per_sample(options):
    """Each sample is made by a program that the worker starts and waits for."""

    def fetch(index):
        done = subprocess.run([sys.executable, "-S", "-c", "print('x' * 100)"], check=True, capture_output=True)
        return len(done.stdout)

    expect(1)
    claim("moves")
    train(Loader(fetch, options))


def program_that_takes_long(options):
    """As before; the program of one sample computes for long."""
    code = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end:\n    sum(range(999))\n"

    def fetch(index):
        if index == 0:
            claim("still")
            subprocess.run([sys.executable, "-S", "-c", code], check=True, capture_output=True)
        return index

    expect(1)
    train(Loader(fetch, options))


def selector_loop(options):
    """The trainer serves sockets without a limit of time, and has parked workers."""
    samples = take(Loader(sample, options), 10)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        expect(1)
        claim("still")
        selector.select()
    next(samples)


def death_pipe(options):
    """A guard process waits for the end of a pipe that the trainer never writes to; the workers have that end too."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    loader = Loader(sample, options)
    expect(1)
    claim("moves")
    train(loader)
    os.close(writer)


def connection_in_thread(options):
    """A thread waits for orders on a connection whose other end the main thread keeps."""
    here, there = multiprocessing.Pipe()
    in_thread(there.recv)
    loader = Loader(sample, options)
    expect(1)
    claim("moves")
    train(loader)
    here.send(None)


def spinning_openmp(options):
    """An OpenMP pool in the trainer whose idle threads spin."""
    os.environ["OMP_WAIT_POLICY"] = "active"  # libgomp reads it when it is loaded
    library = ctypes.CDLL("libgomp.so.1")
    library.GOMP_parallel(ctypes.cast(LIBC.free, ctypes.c_void_p), None, 2, 0)
    loader = Loader(sample, options)
    expect(1)
    claim("moves")
    train(loader)


KINDS = {job.__name__.replace("_", "-"): job
         for job in (log_listener, copy_of_a_held_lock, logging_at_fork, main_waits_for_event, waits_for_signal,
                     slow_producer, slow_producer_process, workers_wait_for_event, semaphore_as_signal,
                     lock_as_signal, native_lock_holder_sleeps, file_lock, program_per_sample,
                     program_that_takes_long, selector_loop, death_pipe, connection_in_thread, spinning_openmp)}


if __name__ == "__main__":
    run_kind(__doc__, KINDS, "fork")
