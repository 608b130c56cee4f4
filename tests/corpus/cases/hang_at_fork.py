"""Workers forked while another thread of the trainer holds a lock, or keeps a pool: the copy in the worker stays
locked for ever, the pool's threads do not exist there. No torch.

Twin: the lock is free at the fork, and every worker uses it.
"""
import concurrent.futures
import ctypes
import importlib
import io
import os
import queue
import sys
import tempfile
import threading
import time

from hang_common import (LIBC, Loader, NativeMutex, NativeReadLock, NativeWriteLock, claim, expect, in_thread,
                         parser, train, until_one_is_at)


class Lock:
    """A lock that another thread holds while the workers are forked."""

    make = threading.Lock
    claim = "still"

    def __init__(self):
        self.lock = self.make()

    def hold(self, taken, let_go):
        """Body of the other thread."""
        self.lock.acquire()
        taken.set()
        let_go.wait()
        self.lock.release()

    def use(self):
        """What a worker does with it."""
        self.lock.acquire()
        self.lock.release()

    def after_fork(self):
        """Of the trainer, once the workers are there."""


class RLock(Lock):
    make = threading.RLock


class Native(Lock):
    make = NativeMutex


class NativeWritten(Lock):
    make = NativeWriteLock


class NativeRead(Lock):
    make = NativeReadLock

    def use(self):
        self.lock.acquire_to_write()
        self.lock.release()


class Queue(Lock):
    """The mutex inside a queue.Queue, as while another thread is in put()."""

    def __init__(self):
        self.queue = queue.Queue()
        self.lock = self.queue.mutex

    def use(self):
        self.queue.put("sample")


class Handler(Lock):
    """A log of the user's own: one lock around a stream."""

    def __init__(self):
        super().__init__()
        self.stream = io.StringIO()

    def use(self):
        self.emit("sample")

    def emit(self, text):
        with self.lock:
            self.stream.write(text)


class Import(Lock):
    """A module that another thread is importing."""

    def hold(self, taken, let_go):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "slow_module.py"), "w", encoding="utf-8") as file:
                file.write("import sys\nsys.taken.set()\nsys.let_go.wait()\n")
            sys.taken, sys.let_go = taken, let_go
            sys.path.insert(0, folder)
            importlib.import_module("slow_module")
            taken.set()
            let_go.wait()

    def use(self):
        importlib.import_module("slow_module")


class File(Lock):
    """A file that another thread is reading: CPython's own lock around its buffer."""

    def __init__(self):
        reader, self.writer = os.pipe()
        self.file = os.fdopen(reader, "rb")

    def hold(self, taken, let_go):
        in_thread(self.watch, taken, let_go)
        self.file.read(1)

    def watch(self, taken, let_go):
        until_one_is_at([os.getpid()], "pipe_read")
        taken.set()
        let_go.wait()
        os.close(self.writer)

    def use(self):
        self.file.read(1)


class TimeZone(Lock):
    """glibc's tzset_lock: another thread is reading the time zone's file, which is slow (a FIFO)."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "zone")
        os.mkfifo(self.path)

    def hold(self, taken, let_go):
        os.environ["TZ"] = ":" + self.path
        in_thread(self.watch, taken)
        LIBC.tzset()

    @staticmethod
    def watch(taken):
        """The reader has the lock once it stands in open()."""
        until_one_is_at([os.getpid()], "wait_for_partner")
        taken.set()

    def use(self):
        time.localtime()

    def after_fork(self):
        os.close(os.open(self.path, os.O_WRONLY))  # the trainer's own thread goes on
        os.unlink(self.path)
        os.environ["TZ"] = "UTC"


class Executor(Lock):
    """A ThreadPoolExecutor whose threads are not copied."""

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def hold(self, taken, let_go):
        self.pool.submit(pow, 2, 3).result()
        taken.set()

    def use(self):
        self.pool.submit(pow, 2, 3).result()


class OpenMp(Lock):
    """A team of libgomp's of which only the caller is copied."""

    def __init__(self):
        library = ctypes.CDLL("libgomp.so.1")
        self.parallel = library.GOMP_parallel
        self.body = ctypes.cast(LIBC.free, ctypes.c_void_p)  # free(NULL) does nothing

    def run(self, threads):
        self.parallel(self.body, None, threads, 0)

    def use(self):
        self.run(2)


class SpinningOpenMp(OpenMp):
    """As OpenMp, where waiting means spinning, as under OMP_WAIT_POLICY=active."""

    claim = "busy"

    def __init__(self):
        os.environ["OMP_WAIT_POLICY"] = "active"
        super().__init__()


class Condition(Lock):
    """A condition that a thread of the trainer's would have notified."""

    make = threading.Condition

    def hold(self, taken, let_go):
        taken.set()
        while not let_go.wait(0.05):
            with self.lock:
                self.lock.notify_all()

    def use(self):
        with self.lock:
            self.lock.wait()


KINDS = {"lock": Lock, "rlock": RLock, "queue": Queue, "handler": Handler, "import": Import, "file": File, "condition": Condition,
         "executor": Executor, "native": Native, "native-written": NativeWritten, "native-read": NativeRead,
         "time-zone": TimeZone, "openmp": OpenMp,
         "openmp-spinning": SpinningOpenMp}


def hold(thing, healthy):
    """Has another thread take it; in the twin, give it back."""
    if isinstance(thing, OpenMp):
        thing.run(2)
        return
    if isinstance(thing, (TimeZone, Executor, Condition)) and healthy:
        return
    taken, let_go = threading.Event(), threading.Event()
    thread = in_thread(thing.hold, taken, let_go)
    taken.wait()
    if healthy:
        let_go.set()
        thread.join()


def main():
    options = parser(__doc__, KINDS).parse_args()
    thing = KINDS[options.kind]()
    hold(thing, options.healthy)

    def fetch(index):
        if index < options.workers:
            claim("moves" if options.healthy else thing.claim)
        if not options.healthy:
            thing.use()
        elif isinstance(thing, OpenMp):
            thing.run(1)
        elif not isinstance(thing, Condition):
            thing.use()
        return bytes(1000)

    expect(options.workers + 1)
    loader = Loader(fetch, options)
    if not options.healthy:
        thing.after_fork()
    claim("moves" if options.healthy else "still")
    train(loader)


if __name__ == "__main__":
    main()
