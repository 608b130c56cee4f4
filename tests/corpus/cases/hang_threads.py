"""Threads of one process that wait for one another, or for what does not end. No torch.

Twin: the same threads, and each wait ends.
"""
import asyncio
import concurrent.futures
import contextlib
import functools
import http.server
import multiprocessing
import queue
import subprocess
import threading
import time
import urllib.request

from hang_common import Loader, claim, expect, in_thread, run_kind, train


def full_queue(options):
    """In a worker: it fills a queue with a lock that the queue's consumer wants."""
    word = "moves" if options.healthy else "still"
    rows = queue.Queue(2)
    lock = threading.Lock()

    def count():
        claim(word)
        while True:
            rows.get()
            with lock:
                time.sleep(0.002)

    def fetch(index):
        if index > 0:
            return index
        in_thread(count)
        claim(word)
        while options.healthy:
            rows.put(index)
            time.sleep(0.002)
        with lock:
            for row in range(8):
                rows.put(row)
        return index

    expect(2)
    in_worker(fetch, options)


def thread_of_an_import(options):
    """In a worker: a module waits for its own thread, which waits until the module is there."""

    def fetch(index):
        import joins_at_import
        if index == 0 and options.healthy:
            claim("moves")
        return joins_at_import.table

    expect(1 if options.healthy else 2)
    in_worker(fetch, options)


def pool_of_an_import(_options):
    """In the trainer: a module waits for a pool, whose thread waits until the module is there."""
    expect(1)
    import pool_at_import
    return pool_at_import.table


def producer(options):
    """In a worker: it waits for a row of a thread, which waits for a program."""
    rows = queue.Queue()

    def produce():
        while True:
            subprocess.run(["sleep", "0.01" if options.healthy else "100"], check=False)
            rows.put(1)

    def fetch(index):
        if index == 0:
            in_thread(produce)
            claim("moves" if options.healthy else "still")
        return rows.get()

    expect(1)
    in_worker(fetch, options)


def in_worker(fetch, options):
    options.workers = 1
    train(Loader(fetch, options))


def in_trainer(step, options):
    """The trainer takes a few samples between its steps."""
    samples = Loader(lambda index: index, options).samples()
    expect(1)
    for number, _ in enumerate(samples):
        if number == 8:
            claim("moves" if options.healthy else "still")
        if number >= 8:
            step(number)


def task_behind_task(options):
    """In the trainer: a task waits for one that is queued behind it."""
    pool = concurrent.futures.ThreadPoolExecutor(2 if options.healthy else 1)
    in_trainer(lambda number: pool.submit(lambda: pool.submit(abs, number).result()).result(), options)


def task_of_a_thread(options):
    """In the trainer: it joins a thread that waits for such a task."""
    pool = concurrent.futures.ThreadPoolExecutor(2 if options.healthy else 1)

    def unpack(number):
        pool.submit(lambda: pool.submit(abs, number).result()).result()

    in_trainer(lambda number: in_thread(unpack, number).join(), options)


class NotToBeRead:
    """It lacks an argument when it is unpickled."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return NotToBeRead, ()


def result_of_a_pool(options):
    """In the trainer: a result that the pool's own thread cannot unpickle ends that thread."""
    pool = multiprocessing.Pool(1)
    in_trainer(lambda number: pool.apply(abs if options.healthy else NotToBeRead, (number,)), options)


def saver(options):
    """In the trainer: it joins the thread that writes a checkpoint, which waits for a program."""

    def upload():
        subprocess.run(["sleep", "0.01" if options.healthy else "100"], check=False)

    def save(_number):
        thread = in_thread(upload)
        thread.join()

    in_trainer(save, options)


def fill(rows, options):
    """Its thread fills a queue, until an item is one that it cannot handle."""
    number = 0
    while True:
        time.sleep(0.01)
        if number == 20 and not options.healthy:
            raise ValueError("20 is too long")
        rows.put(number)
        number += 1


def dead_filler(options):
    """In the trainer: it waits for an item of a thread that an exception has ended."""
    rows = queue.Queue(2)
    thread = in_thread(lambda: fill(rows, options))
    in_trainer(lambda _number: rows.get(), options)
    thread.join()


def credit_not_given_back(options):
    """In the trainer: one thread waits for a free slot, the main thread for the item that would come in it."""
    slots = queue.Queue()
    ready = queue.Queue()
    for _ in range(4):
        slots.put(0)

    def pump():
        while True:
            slots.get()
            time.sleep(0.01)
            ready.put(0)

    def step(number):
        ready.get()
        if options.healthy or number % 8:
            slots.put(0)

    in_thread(pump)
    in_trainer(step, options)


def last_item_not_put(options):
    """The trainer ends, and joins a thread that waits for the next item of a queue."""
    rows = queue.Queue()

    def write():
        while rows.get() is not None:
            time.sleep(0.01)

    thread = in_thread(write)

    def step(number):
        rows.put(number)
        if options.healthy:
            time.sleep(0.01)
        elif number == 40:
            thread.join()

    in_trainer(step, options)


def upload(healthy, done):
    """Its thread waits for a last item, which nobody puts."""
    items = queue.Queue()
    threading.Thread(target=items.get).start()
    if healthy:
        items.put(None)
    else:
        claim("still")
    done.put(True)


def exit_joins_a_thread(options):
    """A worker's function returns, its exit waits for a thread that it left; the trainer joins the worker."""
    expect(1)
    if options.healthy:
        claim("moves")
    done = multiprocessing.SimpleQueue()
    while True:
        worker = multiprocessing.Process(target=upload, args=(options.healthy, done))
        worker.start()
        done.get()
        worker.join()


def result_in_own_loop(options):
    """An event loop's thread waits for a result that the same loop was to make."""
    async def ask():
        loop = asyncio.get_running_loop()
        expect(1)
        claim("moves" if options.healthy else "still")
        while True:
            future = asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), loop)
            await asyncio.wrap_future(future) if options.healthy else future.result()

    asyncio.run(ask())


def answer_to_a_loop(options):
    """A thread sets what a task of an event loop awaits: that does not wake the loop."""
    async def ask():
        loop = asyncio.get_running_loop()
        expect(1)
        claim("moves" if options.healthy else "still")
        while True:
            future = loop.create_future()
            answer = functools.partial(future.set_result, 1)
            threading.Timer(0.05, functools.partial(loop.call_soon_threadsafe, answer) if options.healthy else answer).start()
            await future

    asyncio.run(ask())


def queue_in_own_loop(options):
    """An event loop's thread waits at a queue that a task of the same loop was to fill."""
    async def fill(rows):
        while True:
            await asyncio.sleep(0.01)
            rows.put_nowait(1)

    async def take():
        rows = asyncio.Queue() if options.healthy else queue.Queue()
        task = asyncio.create_task(fill(rows))
        expect(1)
        claim("moves" if options.healthy else "still")
        while not task.done():
            await asyncio.sleep(0)
            await rows.get() if options.healthy else rows.get()

    asyncio.run(take())


def input_left_open(options):
    """An event loop waits for the output of a program, and keeps its input open."""
    async def convert():
        expect(1)
        claim("moves" if options.healthy else "still")
        while True:
            program = await asyncio.create_subprocess_exec("sort", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            program.stdin.write(b"b\na\n")
            if options.healthy:
                program.stdin.close()
            await program.stdout.read()
            await program.wait()

    asyncio.run(convert())


def own_server(options):
    """In a worker: it asks a thread of the trainer's, which wants the lock that the trainer has while it waits."""
    lock = threading.Lock()

    class Answers(http.server.BaseHTTPRequestHandler):
        """Each in a thread of its own."""

        def do_GET(self):
            with lock:
                self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    address = f"http://127.0.0.1:{server.server_port}/"

    def fetch(index):
        if index == 0:
            claim("moves" if options.healthy else "still")
        with urllib.request.urlopen(address):
            return index

    expect(1)
    in_thread(server.serve_forever)
    options.workers = 1
    samples = Loader(fetch, options).samples()
    while True:
        with contextlib.nullcontext() if options.healthy else lock:
            next(samples)


KINDS = {"queue-in-own-loop": queue_in_own_loop, "input-left-open": input_left_open, "own-server": own_server,
         "answer-to-a-loop": answer_to_a_loop, "exit-joins-a-thread": exit_joins_a_thread, "result-in-own-loop": result_in_own_loop, "dead-filler": dead_filler, "credit-not-given-back": credit_not_given_back,
         "last-item-not-put": last_item_not_put, "full-queue": full_queue, "thread-of-an-import": thread_of_an_import,
         "pool-of-an-import": pool_of_an_import, "producer": producer,
         "task-behind-task": task_behind_task, "task-of-a-thread": task_of_a_thread, "result-of-a-pool": result_of_a_pool,
         "saver": saver}


if __name__ == "__main__":
    run_kind(__doc__, KINDS)
