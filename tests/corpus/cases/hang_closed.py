"""Processes that wait for a semaphore which has no holder, and nobody is left to release it. No torch.

Twin: it is released, after a while or again and again.
"""
import multiprocessing
import os
import threading
import time

from hang_common import claim, expect, parser


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


KINDS = {"slots-not-given-back": slots_not_given_back, "barrier-short-of-one": barrier_short_of_one,
         "full-queue-without-consumer": full_queue_without_consumer, "ring-without-a-start": ring_without_a_start}


def main():
    multiprocessing.set_start_method("fork")
    options = parser(__doc__, KINDS).parse_args()
    KINDS[options.kind](options)


if __name__ == "__main__":
    main()
