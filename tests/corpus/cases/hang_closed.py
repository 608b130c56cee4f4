"""Processes that wait for a semaphore which has no holder, or for data, and nobody is left to release or to write it.
No torch.

Twin: it comes, after a while or again and again.
"""
import asyncio
import ctypes
import itertools
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import threading
import time
from functools import partial

from hang_common import LIBC, claim, expect, run_kind


def join_all(options, work, *arguments, more=(), claims=None):
    """The trainer starts workers and waits for their end; `more` are others, started before."""
    workers = [multiprocessing.Process(target=work, args=(number, options.healthy, *arguments))
               for number in range(options.workers)]
    expect(claims or options.workers)
    for process in (*more, *workers):
        process.start()
    for process in (*more, *workers):
        process.join()


def take_slots(number, healthy, slots):
    """Gives its slot back but once: the error path of a real program."""
    claim("moves" if healthy else "still")
    while True:
        slots.acquire()
        time.sleep(0.01)
        if healthy:
            slots.release()


def slots_not_given_back(options):
    join_all(options, take_slots, multiprocessing.Semaphore(options.workers))


def meet(number, healthy, barrier):
    """The first one comes late or never."""
    if number > 0:
        claim("still")
    elif healthy:
        time.sleep(20)
    else:
        return
    barrier.wait()


def barrier_short_of_one(options):
    join_all(options, meet, multiprocessing.Barrier(options.workers), claims=options.workers - 1)


def ask_and_meet(number, healthy, barrier, address):
    """The first one asks a server for its settings, which answers late or never."""
    claim("still")
    if number == 0:
        with socket.create_connection(address) as connection:
            connection.recv(100)
    barrier.wait()


def barrier_with_one_at_a_server(options):
    server = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve():
        while True:
            connections.append(server.accept()[0])
            if options.healthy:
                time.sleep(20)
                connections[-1].send(b"settings")

    threading.Thread(target=serve, daemon=True).start()
    join_all(options, ask_and_meet, multiprocessing.Barrier(options.workers), server.getsockname())


def read_queue(queue, healthy):
    queue.get()
    while healthy:
        queue.get()
        time.sleep(0.01)
    os._exit(1)


def fill_queue(number, healthy, queue):
    claim("moves" if healthy else "still")
    while True:
        queue.put(number)


def full_queue_without_consumer(options):
    """The consumer ends; the producers fill the queue and wait for room."""
    queue = multiprocessing.Queue(4)
    consumer = multiprocessing.Process(target=read_queue, args=(queue, options.healthy))
    join_all(options, fill_queue, queue, more=(consumer,))


def pass_on(number, _healthy, queues):
    claim("still")
    queues[(number + 1) % len(queues)].put(queues[number].get() + 1)


def ring_without_a_start(options):
    """Each worker waits for the one before; the trainer, who should give the first item, waits for their end."""
    queues = [multiprocessing.Queue() for _ in range(options.workers)]
    if options.healthy:
        late = threading.Timer(20, queues[0].put, (1,))
        late.daemon = True
        late.start()
    join_all(options, pass_on, queues)


def all_read(options, take, put, late):
    """The trainer and its workers all wait to read, and nobody writes. Who comes late does not get the readers' lock."""
    workers = [multiprocessing.Process(target=read_once, args=(take, late == "workers")) for _ in range(options.workers)]
    expect(options.workers + 1)
    for worker in workers:
        worker.start()
    if options.healthy:
        threading.Timer(20, put, (1,)).start()
    read_once(take, late == "trainer")


def read_once(take, late):
    if late:
        time.sleep(0.5)
    claim("still")
    take()


def queue_that_nobody_fills(options, late):
    queue = multiprocessing.Queue()
    all_read(options, queue.get, queue.put, late)


def pipe_that_nobody_fills(options, late):
    """As a queue made by hand: a pipe, and a lock for those who read it."""
    lock = multiprocessing.Lock()
    here, there = multiprocessing.Pipe(duplex=False)

    def take():
        with lock:
            here.recv()

    all_read(options, take, there.send, late)


def hand_on(condition, acknowledged, healthy):
    """Notifies before anybody waits, as it does not look whether somebody does."""
    with condition:
        condition.notify()
    if healthy:
        time.sleep(20)
        with condition:
            condition.notify()
    else:
        claim("still")
    acknowledged.wait()


def receive(condition, acknowledged):
    time.sleep(1)
    claim("still")
    with condition:
        condition.wait()
    acknowledged.set()


def notify_before_wait(options):
    """Both sides wait: the one for a notification that is lost, the other, in an Event, for its answer."""
    shared = multiprocessing.Condition(), multiprocessing.Event()
    expect(1 if options.healthy else 2)
    workers = [multiprocessing.Process(target=hand_on, args=(*shared, options.healthy)),
               multiprocessing.Process(target=receive, args=shared)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def keep_end(number, healthy, tasks, stdin):
    """Has a copy of the helper's input, which it never writes to."""
    if healthy:
        stdin.close()
    claim("still")
    tasks.get()


def input_kept_open(options):
    """The trainer reads what a helper says once its input is at its end; the end is open in workers."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
        tasks = multiprocessing.SimpleQueue()
        workers = [multiprocessing.Process(target=keep_end, args=(number, options.healthy, tasks, helper.stdin), daemon=True)
                   for number in range(1 if options.healthy else options.workers)]
        for worker in workers:
            worker.start()
        expect(1 + len(workers))
        helper.stdin.write(b"item\n")
        helper.stdin.close()
        claim("moves" if options.healthy else "still")
        helper.stdout.read()
        while options.healthy:
            time.sleep(0.01)


async def fill(items, healthy):
    for number in itertools.count():
        await asyncio.sleep(0.01)
        if number == 5 and not healthy:
            raise OSError(5, "bad block")
        await items.put(number)


async def take_items(healthy):
    items = asyncio.Queue()
    filler = asyncio.create_task(fill(items, healthy))
    claim("moves" if healthy else "still")
    while True:
        await items.get()
        assert not filler.done()


def task_that_failed(options):
    """A task of an event loop fails, and another one waits for its items."""
    expect(1)
    asyncio.run(take_items(options.healthy))


def ask_again(number, healthy, lock):
    """With a timeout, for the lock that the first one took; it was killed, or gives it back."""
    if number == 0:
        with lock:
            if not healthy:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.5)
    while not lock.acquire(timeout=0.5):
        pass
    if healthy:
        lock.release()


def timed_lock_of_a_killed_one(options):
    """Who asks for a lock again and again wakes, and gets it never."""
    lock = multiprocessing.Lock()
    workers = [multiprocessing.Process(target=ask_again, args=(number, options.healthy, lock)) for number in range(3)]
    for worker in workers:
        worker.start()
    workers[0].join()
    expect(1)
    claim("still")
    if options.healthy:
        time.sleep(20)
    for worker in workers:
        worker.join()


def answer(requests, replies):
    """Leaves one request without a reply."""
    while True:
        select.select([requests], [], [])
        os.eventfd_read(requests)
        os.eventfd_write(replies, 1)


def eventfds_of_two(options):
    """Each of two processes waits at an eventfd that the other one was to ring."""
    requests, replies = os.eventfd(0), os.eventfd(0)
    worker = multiprocessing.Process(target=answer, args=(requests, replies), daemon=True)
    worker.start()
    os.eventfd_write(requests, 1)
    select.select([replies], [], [])
    os.eventfd_read(replies)
    expect(1)
    claim("still")
    if options.healthy:
        time.sleep(20)
        os.eventfd_write(requests, 1)
    select.select([replies], [], [])


def claim_name(number, healthy, lock, names):
    """The first one ends without giving it back: an early return between acquire() and release()."""
    if number > 0:
        names["ended"].wait()
        claim("still")
    lock.acquire()
    if number == 0:
        names["ended"].set()
        if not healthy:
            raise SystemExit(1)
        time.sleep(20)
    lock.release()


def lock_of_a_manager(options):
    with multiprocessing.Manager() as manager:
        lock, ended = manager.Lock(), multiprocessing.Event()
        workers = [multiprocessing.Process(target=claim_name, args=(number, options.healthy, lock, {"ended": ended}))
                   for number in range(3)]
        expect(2)
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def take_frames(number, healthy, name):
    """By sem_open(3), as a library of the program's own does it."""
    semaphore = LIBC.sem_open(name, os.O_CREAT, 0o600, 1)
    if number > 0:
        time.sleep(1)
        claim("still")
    LIBC.sem_wait(ctypes.c_void_p(semaphore))
    if number == 0 and not healthy:
        time.sleep(0.2)
        raise SystemExit(1)
    time.sleep(20 if number == 0 else 0)
    LIBC.sem_post(ctypes.c_void_p(semaphore))


def semaphore_of_a_library(options):
    name = f"/corpus-{os.getpid()}".encode()
    LIBC.sem_open.restype = ctypes.c_void_p
    workers = [multiprocessing.Process(target=take_frames, args=(number, options.healthy, name)) for number in range(3)]
    expect(2)
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    LIBC.sem_unlink(name)
    for worker in workers:
        worker.join()


KINDS = {"timed-lock-of-a-killed-one": timed_lock_of_a_killed_one, "eventfds-of-two": eventfds_of_two,
         "lock-of-a-manager": lock_of_a_manager, "semaphore-of-a-library": semaphore_of_a_library,
         "input-kept-open": input_kept_open, "task-that-failed": task_that_failed, "slots-not-given-back": slots_not_given_back, "barrier-short-of-one": barrier_short_of_one,
         "barrier-with-one-at-a-server": barrier_with_one_at_a_server,
         "notify-before-wait": notify_before_wait, "full-queue-without-consumer": full_queue_without_consumer, "ring-without-a-start": ring_without_a_start}
KINDS.update({f"{medium}-nobody-fills-{late}-late": partial(job, late=late) for late in ("trainer", "workers")
               for medium, job in (("queue", queue_that_nobody_fills), ("pipe", pipe_that_nobody_fills))})


if __name__ == "__main__":
    run_kind(__doc__, KINDS, "fork")
