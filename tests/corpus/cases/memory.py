"""Jobs whose memory grows, and jobs whose memory looks as if it did. No torch, no numpy; Python 3.8 and later.

All growth goes by the clock, not by the machine's speed.
"""
import array
import ctypes
import mmap
import multiprocessing
import os
import tempfile
import threading
import time

from hang_common import Loader, parser

MIB = 1 << 20
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
LIBC.malloc.argtypes = [ctypes.c_size_t]


class Grower:
    """Takes `rate` MiB a second from the first call on, up to `most` MiB: of Python objects, or by malloc."""

    def __init__(self, rate, most=float("inf"), native=False):
        self.rate = rate
        self.most = most
        self.native = native
        self.start = None
        self.taken = 0.0
        self.kept = []

    def __call__(self):
        if self.start is None:
            self.start = time.monotonic()
        due = min(self.rate * (time.monotonic() - self.start), self.most)
        while self.taken < due:
            if self.native:
                ctypes.memset(LIBC.malloc(MIB // 4), 1, MIB // 4)
            else:
                self.kept += [[number] * 8 for number in range(1800)]  # a quarter of a MiB, about
            self.taken += 0.25


def run(options, fetch, step_s=0.02, in_loop=None):
    """A loader and a training loop, for as long as asked."""
    loader = Loader(fetch, options)
    end = time.monotonic() + options.seconds
    for _ in loader.samples():
        if in_loop:
            in_loop()
        time.sleep(step_s)
        if time.monotonic() > end:
            break
    loader.close()


def in_one_worker(grow):
    """A fetch that grows in the worker that makes the sample 0."""
    def fetch(index):
        if index == 0:
            fetch.grows = True
        if fetch.grows:
            grow()
        return index
    fetch.grows = False
    return fetch


def python_leak(options):
    run(options, in_one_worker(Grower(options.rate)))


def native_leak(options):
    run(options, in_one_worker(Grower(options.rate, native=True)))


def loop_leak(options):
    run(options, lambda index: index, in_loop=Grower(options.rate))


def leak_in_all(options):
    grow = Grower(options.rate)
    run(options, lambda index: grow() or index)


def make_samples(data, queue, rate):
    """A producer that does not ask whether anybody takes what it makes."""
    start = time.monotonic()
    made = 0
    while True:
        time.sleep(0.05)
        while made < rate * (time.monotonic() - start):
            queue.put(data[:MIB])
            made += 1


def unbounded_queue(options):
    """Twin: a queue of eight."""
    queue = multiprocessing.Queue(8) if options.healthy else multiprocessing.Queue()
    workers = [multiprocessing.Process(target=make_samples, args=(os.urandom(2 * MIB), queue, options.rate), daemon=True)
               for _ in range(options.workers)]
    for worker in workers:
        worker.start()
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        queue.get()
        time.sleep(0.5)
    for worker in workers:
        worker.terminate()


class Texts:
    """`count` texts, in a list, or in one block of bytes with offsets (the twin)."""

    def __init__(self, count, as_block):
        texts = [f"sample {number:012d} " + "x" * 40 for number in range(count)]
        self.count = count
        self.block = None
        if as_block:
            self.block = "".join(texts).encode()
            self.offsets = array.array("Q", [0])
            for text in texts:
                self.offsets.append(self.offsets[-1] + len(text))
        else:
            self.texts = texts

    def __getitem__(self, index):
        if self.block is None:
            return len(self.texts[index])
        return len(self.block[self.offsets[index]:self.offsets[index + 1]].decode())


def list_dataset(options):
    """Each worker walks through the dataset in four seconds. Twin: one block of bytes."""
    texts = Texts(1_400_000, options.healthy)

    def fetch(_index):
        now = time.monotonic()
        fetch.start = fetch.start or now
        until = min(int(texts.count * (now - fetch.start) / 4), texts.count)
        total = 0
        for number in range(fetch.done, until):
            total += texts[number]
        fetch.done = until
        return total
    fetch.start = None
    fetch.done = 0
    run(options, fetch)


def data_file(mebi):
    file = tempfile.TemporaryFile(dir="/var/tmp")
    for _ in range(mebi):
        file.write(os.urandom(MIB))
    file.flush()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return file


def paced(rate):
    """Gives how many MiB are due since the last call."""
    def due():
        now = time.monotonic()
        due.start = due.start or now
        count = int(rate * (now - due.start)) - due.done
        due.done += count
        return range(due.done - count, due.done)
    due.start = None
    due.done = 0
    return due


def page_cache(options):
    """Reads a file that is not in memory yet."""
    file = data_file(options.mebi)
    due = paced(options.rate)

    def fetch(index):
        for number in due():
            os.pread(file.fileno(), MIB, number % options.mebi * MIB)
        return index
    run(options, fetch)


def mapped_file(options):
    """The same through a mapping."""
    file = data_file(options.mebi)
    mapping = mmap.mmap(file.fileno(), options.mebi * MIB, prot=mmap.PROT_READ)
    due = paced(options.rate)

    def fetch(index):
        for number in due():
            start = number % options.mebi * MIB
            sum(mapping[start:start + MIB:4096])
        return index
    run(options, fetch)


def warm_up(options):
    """Grows for 20 s, then stays."""
    grow = Grower(options.rate, most=options.rate * 20)
    run(options, lambda index: grow() or index)


def bounded_cache(options):
    """A cache that is full after a third of the time."""
    grow = Grower(options.rate, most=options.rate * options.seconds / 3)
    run(options, lambda index: grow() or index)


def sawtooth(options):
    """Everything is given back every four seconds."""
    state = {"grow": Grower(options.rate), "until": time.monotonic() + 4}

    def fetch(index):
        state["grow"]()
        if time.monotonic() > state["until"]:
            state.update(grow=Grower(options.rate), until=time.monotonic() + 4)
        return index
    run(options, fetch)


def epochs(options):
    """The first batches of each of three epochs take memory that the epoch's end gives back."""
    state = {"epoch": -1, "grow": None}
    start = time.monotonic()

    def in_loop():
        epoch = int((time.monotonic() - start) * 3 / options.seconds)
        if epoch != state["epoch"]:
            state.update(epoch=epoch, grow=Grower(options.rate, most=options.rate * 2))
        state["grow"]()
    run(options, lambda index: index, in_loop=in_loop)


def churn(options):
    """Threads that take and give back all the time."""
    def work():
        while True:
            blocks = [bytearray(MIB // 4) for _ in range(40)]
            time.sleep(0.05)
            del blocks

    def fetch(index):
        if not fetch.is_started:
            fetch.is_started = True
            for _ in range(2):
                threading.Thread(target=work, daemon=True).start()
        return index
    fetch.is_started = False
    run(options, fetch)


KINDS = {function.__name__.replace("_", "-"): function
         for function in (python_leak, native_leak, loop_leak, leak_in_all, unbounded_queue, list_dataset, page_cache,
                          mapped_file, warm_up, bounded_cache, sawtooth, epochs, churn)}


def main():
    arguments = parser(__doc__, KINDS)
    arguments.add_argument("--seconds", type=float, default=30)
    arguments.add_argument("--rate", type=float, default=10, help="MiB a second")
    arguments.add_argument("--mebi", type=int, default=300, help="size of the data file")
    options = arguments.parse_args()
    KINDS[options.kind](options)


if __name__ == "__main__":
    main()
