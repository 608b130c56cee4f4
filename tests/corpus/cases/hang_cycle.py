"""Two locks taken in opposite order, in one process and across two. No torch.

Twin: in the same order, by many threads that want them at once.
"""
import multiprocessing
import os
import queue
import signal
import threading
import time

from hang_common import LIBC_WITH_GIL, Loader, NativeMutex, claim, expect, in_thread, parser, train


class MutexWithGil(NativeMutex):
    """A native mutex that is waited for with the GIL held, as by an extension that does not release it."""

    def acquire(self):
        LIBC_WITH_GIL.pthread_mutex_lock(self.memory)




def take_both(first, second, meet, word):
    """Takes the first, waits until the other thread has its own first, takes the second."""
    while True:
        first.acquire()
        if meet:
            meet.wait()
        claim(word) if word else None
        word = None
        second.acquire()
        time.sleep(0.002)
        second.release()
        first.release()


def two_threads(make, options):
    """In a worker: two threads of one sample's augmentation."""
    locks = [make(), make()]

    def fetch(index):
        meet = None if options.healthy else threading.Barrier(2)
        order = locks if options.healthy else locks[::-1]
        word = "moves" if options.healthy else "still"
        threads = [in_thread(take_both, *locks, meet, word), in_thread(take_both, *order, meet, word)]
        for thread in threads:
            thread.join()

    options.workers = 1
    expect(2)
    train(Loader(fetch, options))


def two_processes(make, options):
    """Two workers, each with one of two multiprocessing locks."""
    locks = [make(), make()]
    taken = [multiprocessing.Event(), multiprocessing.Event()]

    def fetch(index):
        own = 0 if options.healthy else index % 2
        with locks[own]:
            if not options.healthy:
                taken[own].set()
                taken[1 - own].wait()
            if index < 2:
                claim("moves" if options.healthy else "still")
            with locks[1 - own]:
                time.sleep(0.005)
        return index

    expect(3)
    loader = Loader(fetch, options)
    claim("moves" if options.healthy else "still")
    train(loader)


def one_thread(make, options):
    """A lock that is not recursive, taken twice by one thread of a worker."""
    lock = make()
    options.workers = 1

    def fetch(index):
        lock.acquire()
        if index < options.workers:
            claim("moves" if options.healthy else "still")
        if options.healthy:
            lock.release()
        lock.acquire()
        lock.release()

    expect(1)
    train(Loader(fetch, options))


def handler(make, options):
    """A handler takes the lock of the code that its signal interrupts; the signals go on."""
    lock = threading.RLock() if options.healthy else make()
    options.workers = 1

    def handle(_signal, _frame):
        with lock:
            time.sleep(0.001)

    def fetch(index):
        if index == 0:
            signal.signal(signal.SIGUSR1, handle)
            claim("moves")
        with lock:
            time.sleep(0.01)
        return index

    def remind(worker):
        while True:
            time.sleep(0.1)
            os.kill(worker.pid, signal.SIGUSR1)

    expect(1)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    loader = Loader(fetch, options)
    in_thread(remind, loader.workers[0])
    train(loader)


class NotedQueue(queue.Queue):
    """A queue.Queue whose first item comes with a signal."""

    def _put(self, item):
        super()._put(item)
        if item == 0:
            os.kill(os.getpid(), signal.SIGUSR1)


def handler_of_queue(make, options):
    """A handler puts into the queue in whose put() its signal came: a queue's lock is taken by its conditions."""
    seen = queue.SimpleQueue() if options.healthy else make()
    options.workers = 1

    def fetch(index):
        if index == 0:
            signal.signal(signal.SIGUSR1, lambda _signal, _frame: seen.put(-1))
            claim("moves" if options.healthy else "still")
        seen.put(index)
        time.sleep(0.01)
        return index

    expect(1)
    train(Loader(fetch, options))


def gil(_make, options):
    """One thread has the mutex and wants the GIL, the other the GIL and wants the mutex."""

    def fetch(index):
        mutex = NativeMutex() if options.healthy else MutexWithGil()

        def other():
            while True:
                mutex.acquire()
                mutex.release()

        if options.healthy:
            in_thread(other)
            claim("moves")
            while True:
                mutex.acquire()
                mutex.release()
        held = NativeMutex()
        held.memory = mutex.memory
        held.acquire()
        in_thread(lambda: (claim("still"), mutex.acquire()))
        while True:
            time.sleep(0.05)  # gives the GIL away; once it does not come back

    options.workers = 1
    expect(1)  # one that waits for the GIL wakes every 5 ms
    train(Loader(fetch, options))


KINDS = {"native": (two_threads, NativeMutex), "lock": (two_threads, threading.Lock),
         "rlock": (two_threads, threading.RLock), "processes": (two_processes, multiprocessing.Lock),
         "self-native": (one_thread, NativeMutex), "self-lock": (one_thread, threading.Lock),
         "self-processes": (one_thread, multiprocessing.Lock), "handler": (handler, threading.Lock),
         "handler-queue": (handler_of_queue, NotedQueue), "gil": (gil, None)}


def main():
    options = parser(__doc__, KINDS).parse_args()
    job, make = KINDS[options.kind]
    job(make, options)


if __name__ == "__main__":
    main()
