"""Not a deadlock, yet nothing comes: storage that does not answer, a sample that takes very long, a loop without an
end, a consumer that is stuck in its own code. No torch.

Twin: the same work, done in a moment.
"""
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

from hang_common import Loader, claim, expect, in_thread, run_kind, train


def beside(function, *arguments):
    """A process outside this tree, as a server would be: its parent is gone."""
    if os.fork() == 0:
        if os.fork() == 0:
            function(*arguments)
            os._exit(0)
        os._exit(0)
    os.wait()


def serve_fifo(path, healthy):
    """Opens the file for writing, and writes only in the twin."""
    while True:
        try:
            with open(path, "wb", buffering=0) as file:
                time.sleep(0.01 if healthy else 1000)
                file.write(b"x" * 16)
        except BrokenPipeError:
            continue


def read_fifo(options, with_server):
    """A file on storage that does not answer."""
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "data")
    os.mkfifo(path)
    if with_server or options.healthy:
        beside(serve_fifo, path, options.healthy)

    def fetch(index):
        if not with_server and index == 0:
            claim("moves" if options.healthy else "still")
        with open(path, "rb", buffering=0) as file:
            if with_server and index == 0:
                claim("moves" if options.healthy else "still")
            return file.read(16)

    options.workers = 1
    expect(2)
    loader = Loader(fetch, options)
    claim("moves" if options.healthy else "still")
    train(loader)


def fifo_that_stays_empty(options):
    read_fifo(options, True)


def fifo_without_writer(options):
    read_fifo(options, False)


def answer(terminal):
    while True:
        os.write(terminal, b"n\n")
        time.sleep(0.005)


def asks_a_terminal(options):
    """A worker asks for input, as a debugger does that was left in the data set. In the twin somebody answers."""
    master, slave = os.openpty()
    if options.healthy:
        beside(answer, master)
    name = os.ttyname(slave)

    def fetch(index):
        if index == 6:
            claim("moves" if options.healthy else "still")
        if index >= 6:
            with open(name, "rb", buffering=0) as terminal:
                terminal.readline()
        return index

    expect(1)
    train(Loader(fetch, options))


def decode(depth, seed):
    """Work that is always in another frame, and on another line."""
    if depth == 0:
        return seed % 2000
    left = decode(depth - 1, seed * 3 + 1)
    right = decode(depth - 1, seed * 5 + 2)
    return (left ^ right) % 1000003


def slow_sample(options):
    """One sample takes many times as long as the others, and gets there."""

    def fetch(index):
        if index == 6:
            claim("moves" if options.healthy else "busy")
            end = time.monotonic() + (0 if options.healthy else 60)
            while time.monotonic() < end:
                decode(9, index)
        time.sleep(0.005)
        return index

    expect(1)
    train(Loader(fetch, options), 0)


def slow_native_sample(options):
    """The same in one long native call after another: sorting."""
    values = [(index * 7919) % 1_000_003 for index in range(500_000)]

    def fetch(index):
        if index == 6:
            claim("moves" if options.healthy else "busy")
            end = time.monotonic() + (0 if options.healthy else 60)
            while time.monotonic() < end:
                sorted(values)
        time.sleep(0.005)
        return index

    expect(1)
    train(Loader(fetch, options), 0)


def busy_without_end(options):
    """A loop whose end never comes, as an augmentation that tries until a crop fits."""

    def fetch(index):
        if index == 6:
            claim("moves" if options.healthy else "busy")
            fits = options.healthy
            while not fits: pass  # one line: what moves between two is called a slow sample
        time.sleep(0.005)
        return index

    expect(1)
    train(Loader(fetch, options), 0)


def stuck_consumer(options, step):
    """The workers have all done their part; the training step does not end."""
    loader = Loader(lambda index: bytes(1000), options)
    samples = loader.samples()
    for _ in range(20):
        next(samples)
    expect(1)
    claim("moves" if options.healthy else "still")
    while True:
        if not options.healthy:
            step()
        next(samples)
        time.sleep(0.005)


def consumer_at_a_lock(options):
    lock = threading.Lock()
    lock.acquire()
    stuck_consumer(options, lock.acquire)


def accept_only(listener):
    connection = listener.accept()
    time.sleep(1000)
    del connection


def consumer_at_a_socket(options):
    """Waits for another rank that does not answer (it lives outside this tree)."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    beside(accept_only, listener)
    peer = socket.create_connection(listener.getsockname())
    listener.close()
    stuck_consumer(options, lambda: peer.recv(16))


def consumer_in_a_native_call(options):
    """Blocked in native code: a pipe of the process's own that nobody writes to."""
    reader, _writer = os.pipe()
    stuck_consumer(options, lambda: os.read(reader, 16))


def consumer_in_a_loop(options):
    """Computes without an end in one line of its own."""
    loader = Loader(lambda index: bytes(1000), options)
    samples = loader.samples()
    for _ in range(20):
        next(samples)
    expect(1)
    claim("moves" if options.healthy else "busy")
    converged = options.healthy
    while not converged:
        pass
    while True:
        next(samples)
        time.sleep(0.005)


def parse(queue, index):
    queue.put(index)


def full_queue_of_a_manager(options):
    """A pool's tasks wait for room in the queue of a Manager's process, which the trainer empties only afterwards."""
    with multiprocessing.Manager() as server, multiprocessing.Pool(options.workers) as pool:
        queue = server.Queue(4)
        if options.healthy:
            in_thread(lambda: [queue.get() for _ in iter(int, 1)])
        expect(1)
        claim("moves" if options.healthy else "still")
        while True:
            pool.map(partial(parse, queue), range(40))


def output_left_open(options):
    """A shell starts a helper in the background, which keeps the shell's output."""
    expect(1)
    claim("moves" if options.healthy else "still")
    while True:
        subprocess.run(["sh", "-c", "sleep 0.1" if options.healthy else "sleep 90 & echo started"],
                       check=True, capture_output=True)


COMPUTES = """
while True: sum(range(99999))
"""


def consumer_of_a_program(options):
    """Reads the output of a program, which waits for somebody to open a FIFO. In the twin it computes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "feed")
        os.mkfifo(path)
        program = COMPUTES if options.healthy else f"open({path!r})"
        loader = Loader(lambda index: bytes(1000), options)
        next(loader.samples())
        expect(1)
        claim("still")
        subprocess.run([sys.executable, "-c", f"import signal; signal.alarm(100)\n{program}"], check=True, capture_output=True)


def serve_rows(listener, healthy):
    """A thread for each client answers a few times, and then waits for long; in the twin it computes."""
    def answer(connection):
        for _ in range(8):
            connection.sendall(connection.recv(16))
        while healthy:
            sum(range(99999))
        time.sleep(1000)

    while True:
        in_thread(answer, listener.accept()[0])


def sample_of_a_server(options):
    """Workers ask a process of the job for rows; its main thread lets clients in."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")
    listener.listen(8)
    multiprocessing.Process(target=serve_rows, args=(listener, options.healthy), daemon=True).start()
    client = []

    def fetch(index):
        if not client:
            client.append(socket.socket(socket.AF_UNIX))
            client[0].connect(listener.getsockname())
        client[0].sendall(b"row")
        return client[0].recv(16)

    expect(1)
    claim("still")
    train(Loader(fetch, options))


KINDS = {"consumer-of-a-program": consumer_of_a_program, "sample-of-a-server": sample_of_a_server,
         "asks-a-terminal": asks_a_terminal, "fifo-that-stays-empty": fifo_that_stays_empty, "fifo-without-writer": fifo_without_writer,
         "full-queue-of-a-manager": full_queue_of_a_manager, "output-left-open": output_left_open,
         "slow-sample": slow_sample, "slow-native-sample": slow_native_sample, "busy-without-end": busy_without_end,
         "consumer-at-a-lock": consumer_at_a_lock, "consumer-at-a-socket": consumer_at_a_socket,
         "consumer-in-a-native-call": consumer_in_a_native_call, "consumer-in-a-loop": consumer_in_a_loop}


if __name__ == "__main__":
    run_kind(__doc__, KINDS)
