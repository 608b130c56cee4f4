"""What the hanging jobs share, without torch: what they tell the test driver, a small loader (index queues,
workers, one queue back), and pthread locks. Python 3.8 and later.

A job tells the driver what it may count on before dlprobe looks, one line each:

    threads N    so many of the following lines come, from whichever thread
    still TID    this thread is about to block; the driver waits until it has not run for a while
    at-futex TID the same, at a futex
    busy TID     this thread is about to compute
    moves TID    this thread comes and goes
    waits TID    still or busy
    attach PID   look at this process instead of the job's first

Everything here ends by itself after LIFE_S.
"""
import argparse
import contextlib
import ctypes
import multiprocessing
import os
import queue
import signal
import threading
import time

LIFE_S = 120
LIBC = ctypes.CDLL(None, use_errno=True)   # its functions run without the GIL
LIBC_WITH_GIL = ctypes.PyDLL(None)         # its functions keep the GIL

signal.alarm(LIFE_S)
os.register_at_fork(after_in_child=lambda: signal.alarm(LIFE_S))


def say(text):
    """One line for the driver; without Python's buffers and their locks."""
    os.write(1, (text + "\n").encode())


def claim(word):
    """What this thread is about to do: still, busy or moves."""
    say(f"{word} {threading.get_native_id()}")


def expect(claims):
    say(f"threads {claims}")


def until_one_is_at(pids, place):
    """Waits until a thread of these processes sleeps in a kernel function whose name contains `place`."""
    while True:
        for pid in pids:
            for tid in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(FileNotFoundError), \
                        open(f"/proc/{pid}/task/{tid}/wchan", encoding="ascii") as file:
                    if place in file.read():
                        return
        time.sleep(0.01)


class Beat(argparse.Action):
    """Starts a heartbeat, as trainers have them for their logs: it wakes, writes a line and sleeps."""

    def __call__(self, *_):
        in_thread(self.beat)

    @staticmethod
    def beat():
        with open(os.devnull, "w", encoding="ascii", buffering=1) as log:
            while True:
                log.write(f"{time.time()}\n")
                time.sleep(0.2)


def parser(description, kinds):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("kind", choices=sorted(kinds))
    result.add_argument("--healthy", action="store_true", help="the twin that nothing is wrong with")
    result.add_argument("--workers", type=int, default=2)
    result.add_argument("--beat", action=Beat, nargs=0, help="with a heartbeat in the trainer")
    result.add_argument("--patience", type=float, help="the trainer's wait for one item; then it waits again")
    return result


def run_kind(description, kinds, method=None):
    """The job that the command line names."""
    options = parser(description, kinds).parse_args()
    if method:
        multiprocessing.set_start_method(method)
    kinds[options.kind](options)


class NativeMutex:
    """A pthread_mutex_t of the default kind, zero-initialised."""

    def __init__(self):
        self.memory = ctypes.create_string_buffer(64)

    def acquire(self):
        LIBC.pthread_mutex_lock(self.memory)

    def release(self):
        LIBC.pthread_mutex_unlock(self.memory)


class NativeReadLock:
    """A pthread_rwlock_t: `acquire` reads."""

    def __init__(self):
        self.memory = ctypes.create_string_buffer(64)

    def acquire(self):
        LIBC.pthread_rwlock_rdlock(self.memory)

    def acquire_to_write(self):
        LIBC.pthread_rwlock_wrlock(self.memory)

    def release(self):
        LIBC.pthread_rwlock_unlock(self.memory)


class NativeWriteLock(NativeReadLock):
    """A pthread_rwlock_t: `acquire` writes."""

    acquire = NativeReadLock.acquire_to_write


def in_thread(function, *arguments):
    """A daemon thread that runs `function`."""
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def work(fetch, indices, results):
    """A worker: takes an index, gives the sample; ends at None."""
    while True:
        index = indices.get()
        if index is None:
            return
        results.put((index, fetch(index)))


class Loader:
    """The trainer's side: indices go round the workers, samples come back as they are done."""

    def __init__(self, fetch, options, method="fork"):
        context = multiprocessing.get_context(method)
        self.patience = options.patience
        self.results = context.Queue()
        self.indices = [context.Queue() for _ in range(options.workers)]
        self.workers = [context.Process(target=work, args=(fetch, each, self.results), daemon=True)
                        for each in self.indices]
        for worker in self.workers:
            worker.start()
        self.sent = 0

    def send(self):
        self.indices[self.sent % len(self.indices)].put(self.sent)
        self.sent += 1

    def take(self):
        while True:
            try:
                return self.results.get(timeout=self.patience)
            except queue.Empty:
                continue

    def samples(self, prefetch=2):
        """Samples without end."""
        for _ in range(prefetch * len(self.workers)):
            self.send()
        while True:
            yield self.take()
            self.send()

    def close(self):
        for each in self.indices:
            each.put(None)
        for worker in self.workers:
            worker.join()


def train(loader, step_s=0.01):
    """Takes samples for as long as the job may live."""
    for _ in loader.samples():
        time.sleep(step_s)
