"""The one who would have to go on is gone, or stopped. No torch.

Twin: nobody goes.
"""
import ctypes
import fcntl
import multiprocessing
import multiprocessing.managers
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial

from deaths_common import run_in
from hang_common import LIBC, Loader, claim, expect, in_thread, run_kind, say, train, until_one_is_at

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def semaphore_holder_killed(options):
    """A worker is killed while it holds a multiprocessing lock; the other one waits for it."""
    lock = multiprocessing.Lock()
    taken = multiprocessing.Event()

    def fetch(index):
        if index == 0 and not options.healthy:
            lock.acquire()
            taken.set()
            os.kill(os.getpid(), signal.SIGKILL)
        taken.wait(None if not options.healthy else 0)
        if index < 2:
            claim("moves" if options.healthy else "still")
        with lock:
            time.sleep(0.002)
        return index

    expect(3 if options.healthy else 2)
    loader = Loader(fetch, options)
    loader.send()
    loader.send()
    if not options.healthy:
        loader.workers[0].join()
    claim("moves" if options.healthy else "still")
    train(loader)


def pipe_without_writer(options):
    """Workers read from a pipe whose writer was killed; they hold the writing end themselves."""
    reader, writer = os.pipe()
    feeder = os.fork()
    if feeder == 0:
        while True:
            if options.healthy:
                os.write(writer, b"x" * 16)
            time.sleep(0.01)

    def fetch(index):
        if index < options.workers:
            claim("moves" if options.healthy else "still")
        return os.read(reader, 16)

    expect(options.workers + 1)
    loader = Loader(fetch, options)
    os.close(reader)
    os.close(writer)
    if not options.healthy:
        os.kill(feeder, signal.SIGKILL)
        os.waitpid(feeder, 0)
    claim("moves" if options.healthy else "still")
    train(loader)


def queue_without_producer(options):
    """The trainer waits for a sample; all workers have left."""

    def fetch(index):
        if index == 8 and not options.healthy:
            os._exit(0)
        return index

    options.workers = 1
    expect(1)
    loader = Loader(fetch, options)
    if not options.healthy:
        for _ in range(9):
            loader.send()
        loader.workers[0].join()
        claim("still")
    else:
        claim("moves")
    train(loader)


def stopped(options):
    """Each worker stops at a sample (SIGSTOP), as by a debugger or a batch system."""

    def fetch(index):
        if index < options.workers:
            LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))  # no alarm rings in it
            claim("moves" if options.healthy else "still")
            if not options.healthy:
                os.kill(os.getpid(), signal.SIGSTOP)
        return index

    expect(options.workers + 1)
    loader = Loader(fetch, options)
    claim("moves" if options.healthy else "still")
    train(loader)


def orphans(options, size, place):
    """The trainer was killed; its workers live on, writing to a pipe that only they read, or waiting for work."""

    def fetch(index):
        if index < options.workers:
            claim("moves" if options.healthy else "still")
        return bytes(size)

    expect(options.workers + (0 if options.healthy else 1))
    loader = Loader(fetch, options)
    if options.healthy:
        train(loader)
    for _ in range(3 * options.workers):
        loader.send()
    for each in loader.indices:
        each.close()
        each.join_thread()
    for _ in range(options.workers):
        loader.take()
    until_one_is_at([worker.pid for worker in loader.workers], place)
    say(f"attach {loader.workers[0].pid}")
    os.kill(os.getpid(), signal.SIGKILL)


def orphans_that_write(options):
    orphans(options, 400_000, "pipe_write")


def orphans_that_wait(options):
    orphans(options, 100, "pipe_read")


def pool_task(number):
    """The seventh task ends its process."""
    if number == 7:
        os._exit(1)
    time.sleep(0.002)
    return number


def healthy_pool_task(number):
    time.sleep(0.002)
    return number


def pool_worker_died(options, method="fork"):
    """multiprocessing.Pool starts another worker, and waits for ever for the task that went with the first."""
    task = healthy_pool_task if options.healthy else pool_task
    with multiprocessing.get_context(method).Pool(options.workers) as pool:
        expect(1)
        claim("moves" if options.healthy else "still")
        while True:
            pool.map(task, range(20), chunksize=1)


def pool_that_ended(options):
    """imap gives its results one by one, after the pool's with block."""
    expect(1)
    claim("moves" if options.healthy else "still")
    while True:
        with multiprocessing.Pool(options.workers) as pool:
            results = pool.imap(healthy_pool_task, range(4))
            if options.healthy:
                results = list(results)
        for _ in results:
            pass


def read_some(queue, healthy):
    for _ in range(4 if not healthy else 100_000):
        queue.get()


def readers_that_ended(options):
    """Who read the queue has ended; the trainer puts on."""
    queue = multiprocessing.Queue(4)
    readers = [multiprocessing.Process(target=read_some, args=(queue, options.healthy), daemon=True)
               for _ in range(options.workers)]
    for each in readers:
        each.start()
    expect(1)
    claim("moves" if options.healthy else "still")
    while True:
        queue.put(0)
        time.sleep(0.01)


def handler_at_exit(options):
    """A handler of SIGTERM that fork copied keeps a daemon alive, which the trainer's exit waits for."""
    queue = multiprocessing.Queue(4)
    signal.signal(signal.SIGTERM, signal.SIG_DFL if options.healthy else lambda *_: None)
    daemon = multiprocessing.Process(target=fill_for_ever, args=(queue,), daemon=True)
    daemon.start()
    expect(1)
    claim("moves" if options.healthy else "still")
    while options.healthy:
        queue.get()


def fill_for_ever(queue):
    while True:
        queue.put(0)


def put_much(queue):
    queue.put(bytes(1 << 20))


def join_before_get(options):
    """join() of a process whose queue nobody has read: it ends once its data is taken."""
    queue = multiprocessing.Queue()
    expect(1)
    claim("moves" if options.healthy else "still")
    while True:
        process = multiprocessing.Process(target=put_much, args=(queue,))
        process.start()
        if options.healthy:
            queue.get()
        process.join()


def manager_stopped(options, address=None):
    """Each worker asks a server of multiprocessing.managers, through a socket; the server is stopped."""
    manager = multiprocessing.managers.SyncManager(address=address)
    manager.start()
    numbers = manager.list(range(10))

    def fetch(index):
        if index < options.workers:
            claim("moves" if options.healthy else "still")
            numbers[0]
            connected.release()
            until_stopped.wait()
        return numbers[index % 10]

    until_stopped = multiprocessing.Event()
    connected = multiprocessing.Semaphore(0)
    expect(options.workers + 1)
    loader = Loader(fetch, options)
    for _ in range(options.workers):
        loader.send()
    claim("moves" if options.healthy else "still")
    if not options.healthy:
        # A worker that is yet to connect would not come to its claim.
        for _ in range(options.workers):
            connected.acquire()
        os.kill(manager._process.pid, signal.SIGSTOP)
    until_stopped.set()
    train(loader)


def tcp_manager_stopped(options):
    manager_stopped(options, ("127.0.0.1", 0))


def socket_without_peer(options):
    """Workers read from one end of a socketpair, whose writer was killed; they hold the other end themselves."""
    reader, writer = socket.socketpair()
    feeder = os.fork()
    if feeder == 0:
        while True:
            if options.healthy:
                writer.send(b"x" * 16)
            time.sleep(0.01)

    def fetch(index):
        if index < options.workers:
            claim("moves" if options.healthy else "still")
        return reader.recv(16)

    expect(options.workers + 1)
    loader = Loader(fetch, options)
    reader.close()
    writer.close()
    if not options.healthy:
        os.kill(feeder, signal.SIGKILL)
        os.waitpid(feeder, 0)
    claim("moves" if options.healthy else "still")
    train(loader)


def file_lock_circle(options, lock=fcntl.flock):
    """One worker has the lock of a file and waits for a word of the other, who wants the lock first."""
    reader, writer = os.pipe()
    with tempfile.NamedTemporaryFile() as file:
        taken = multiprocessing.Event()

        def speak(descriptor):
            if not options.healthy:
                lock(descriptor, fcntl.LOCK_EX)
            os.write(writer, b"x")

        def fetch(index):
            if index < 2:
                claim("moves" if options.healthy else "still")
            descriptor = os.open(file.name, os.O_RDWR)  # a lock of its own
            if index % 2 == 0:
                lock(descriptor, fcntl.LOCK_EX)
                taken.set()
                os.read(reader, 1)
            else:
                taken.wait()
                speak(descriptor)
            os.close(descriptor)
            return index

        options.workers = 2
        expect(3)
        loader = Loader(fetch, options)
        os.close(reader)
        os.close(writer)
        claim("moves" if options.healthy else "still")
        train(loader)


def record_lock_circle(options):
    """The same with locks of fcntl(2)."""
    file_lock_circle(options, fcntl.lockf)


def orphans_under_subreaper(options):
    """As orphans-that-wait, where not init but another process adopts them."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    arguments = ["--healthy"] if options.healthy else []
    subprocess.run([sys.executable, __file__, "orphans-that-wait", *arguments], check=False)
    while True:
        time.sleep(1)


def fill(queue, healthy):
    claim("moves" if healthy else "still")
    while True:
        queue.put(bytes(100_000))


def trainer_that_leaves_a_queue(options):
    """Its workers fill a queue, and wait for one another's feeder threads when it is gone."""
    queue = multiprocessing.Queue(2)
    expect(options.workers)
    for _ in range(options.workers):
        multiprocessing.Process(target=fill, args=(queue, options.healthy)).start()
    for _ in range(20):
        queue.get()
    while options.healthy:
        queue.get()
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def queue_left_under_launcher(options):
    """The launcher lives on, and adopts the workers."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    arguments = ["--healthy"] if options.healthy else []
    subprocess.run([sys.executable, __file__, "trainer-that-leaves-a-queue", *arguments], check=False)
    while True:
        time.sleep(1)


def read_to_the_end(pipes, number, healthy):
    """Closes its own write end, and those of the others only in the twin."""
    for other, (_, writer) in enumerate(pipes):
        if healthy or other == number:
            os.close(writer)
    claim("moves" if healthy else "still")
    while os.read(pipes[number][0], 100):
        pass


def readers_with_one_anothers_ends(options):
    """No reader's input ends, for the others have inherited the end of it to write to."""
    pipes = [os.pipe() for _ in range(options.workers)]
    readers = [multiprocessing.Process(target=read_to_the_end, args=(pipes, number, options.healthy))
               for number in range(options.workers)]
    expect(options.workers)
    for reader in readers:
        reader.start()
    while options.healthy:
        for _, writer in pipes:
            os.write(writer, b"more")
        time.sleep(0.01)
    for _, writer in pipes:
        os.close(writer)
    for reader in readers:
        reader.join()


def freeze(group, state):
    file = "freezer.state" if state in ("FROZEN", "THAWED") else "cgroup.freeze"
    with open(f"{group}/{file}", "w", encoding="ascii") as switch:
        switch.write(state)


def thaw_at_the_end(group, thawed, here):
    """Whoever ends the job cannot end what is frozen: this outlives it, in a mount namespace of its own."""
    CLONE_NEWNS = 0x00020000
    LIBC.unshare(CLONE_NEWNS)
    os.read(here, 1)
    freeze(group, thawed)
    while True:
        with open(f"{group}/cgroup.procs", encoding="ascii") as file:
            left = file.read().split()
        for pid in left:
            os.kill(int(pid), signal.SIGKILL)
        if not left:
            break
        time.sleep(0.05)
    os.rmdir(group)
    os._exit(0)


def frozen_group(options, controller, frozen, thawed):
    """As `docker pause` does it: the loader is frozen from outside, and says nothing itself."""
    group = f"/sys/fs/cgroup/{controller}/dlprobe-corpus-{os.getpid()}"
    os.mkdir(group)
    here, there = os.pipe()
    if os.fork() == 0:
        os.close(there)
        thaw_at_the_end(group, thawed, here)
    loader = subprocess.Popen([sys.executable, __file__, "loader-at-work", "--healthy"], preexec_fn=run_in(group),
                              stdout=subprocess.PIPE)
    say(f"attach {loader.pid}")
    loader.stdout.readline()
    expect(2)
    if not options.healthy:
        freeze(group, frozen)
    say(f"{'moves' if options.healthy else 'waits'} {loader.pid}")
    time.sleep(20)


def loader_at_work(options):
    loader = Loader(lambda index: index, options)
    loader.send()
    loader.take()
    say("works")
    train(loader)


def echo(listener):
    """Answers each line, in a thread for each client."""
    def answer(connection):
        with connection.makefile("rwb") as stream:
            for line in stream:
                stream.write(line)
                stream.flush()

    while True:
        in_thread(answer, listener.accept()[0])


def request_in_a_buffer(options):
    """A worker asks a server of the job, and one request stays in the buffer of its own side."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")
    listener.listen(8)
    multiprocessing.Process(target=echo, args=(listener,), daemon=True).start()
    streams = []

    def fetch(index):
        if not streams:
            client = socket.socket(socket.AF_UNIX)
            client.connect(listener.getsockname())
            streams.append(client.makefile("rwb"))
        if index == 6:
            claim("moves" if options.healthy else "still")
        streams[0].write(b"%d\n" % index)
        if options.healthy or index < 6:
            streams[0].flush()
        time.sleep(0.005)
        return streams[0].readline()

    expect(1)
    train(Loader(fetch, options))


KINDS = {"pool-that-ended": pool_that_ended, "readers-that-ended": readers_that_ended, "handler-at-exit": handler_at_exit,
         "request-in-a-buffer": request_in_a_buffer,
         "frozen-v1": partial(frozen_group, controller="freezer", frozen="FROZEN", thawed="THAWED"),
         "frozen-v2": partial(frozen_group, controller="unified", frozen="1", thawed="0"),
         "loader-at-work": loader_at_work, "readers-with-one-anothers-ends": readers_with_one_anothers_ends,
         "trainer-that-leaves-a-queue": trainer_that_leaves_a_queue,
         "queue-left-under-launcher": queue_left_under_launcher, "manager-stopped": manager_stopped, "tcp-manager-stopped": tcp_manager_stopped,
         "socket-without-peer": socket_without_peer, "file-lock-circle": file_lock_circle, "record-lock-circle": record_lock_circle,
         "orphans-under-subreaper": orphans_under_subreaper,
         "semaphore-holder-killed": semaphore_holder_killed, "pipe-without-writer": pipe_without_writer,
         "queue-without-producer": queue_without_producer, "stopped": stopped,
         "orphans-that-write": orphans_that_write, "orphans-that-wait": orphans_that_wait,
         "pool-worker-died": pool_worker_died, "pool-of-fork-server": partial(pool_worker_died, method="forkserver"),
         "join-before-get": join_before_get}


if __name__ == "__main__":
    run_kind(__doc__, KINDS, "fork")
