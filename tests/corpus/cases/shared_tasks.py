"""Processes of multiprocessing, none of a DataLoader, that read a file opened before they were forked, in a job of a second; each of
the other kinds is a healthy one like it.

The fault is counted: a job in which every record came as it was written prints "all right"."""
import argparse
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

RECORD, RECORDS, OF_TASK = 100, 2000, 10
CONTEXT = multiprocessing.get_context("fork")
LOCK = CONTEXT.Lock()
FILE = INDEX = None


def record_of(index):
    return b"%06d" % index + b"-" * (RECORD - 7) + b"\n"


def read_shared(index):
    FILE.seek(index * RECORD)
    return FILE.read(RECORD)


def read_locked(index):
    with LOCK:
        FILE.seek(index * RECORD)
        return FILE.read(RECORD)


def read_at_offset(index):
    return os.pread(FILE.fileno(), RECORD, index * RECORD)


def read_own(index):
    """The parent alone reads by what was opened before."""
    with open(os.environ["SHARED_TASKS"], "rb", buffering=0) as file:
        file.seek(index * RECORD)
        return file.read(RECORD)


READS = {"shared": read_shared, "locked": read_locked, "at-offset": read_at_offset, "own": read_own}


class Some:
    def __init__(self, read):
        self.read = read

    def __call__(self, first):
        wrong = 0
        for index in range(first, first + OF_TASK):
            time.sleep(0.0002)
            wrong += self.read(index) != record_of(index)
        return wrong


def starts():
    """Of tasks; the parent learns them from a file."""
    while True:
        line = INDEX.read(RECORD)
        if not line:
            return
        time.sleep(0.0003)
        if int(line[:6]) % OF_TASK == 0:
            yield int(line[:6])


def work(tasks, results, some):
    for first in iter(tasks.get, None):
        results.put(some(first))


def by_processes(some):
    tasks, results = CONTEXT.Queue(), CONTEXT.Queue()
    workers = [CONTEXT.Process(target=work, args=(tasks, results, some)) for _ in range(2)]
    for worker in workers:
        worker.start()
    count = sum(1 for _ in map(tasks.put, starts()))
    for _ in workers:
        tasks.put(None)
    return sum(results.get() for _ in range(count))


def by_pool(some):
    with CONTEXT.Pool(2) as pool:
        return sum(pool.imap_unordered(some, starts()))


def by_executor(some):
    with ProcessPoolExecutor(2, mp_context=CONTEXT) as executor:
        return sum(executor.map(some, starts()))


def main():
    global FILE, INDEX
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(READS))
    parser.add_argument("--by", default="pool", choices=("pool", "executor", "processes"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ["SHARED_TASKS"] = os.path.join(folder, "train.txt")
        with open(path, "wb") as file:
            file.writelines(map(record_of, range(RECORDS)))
        FILE, INDEX = open(path, "rb", buffering=0), open(path, "rb", buffering=0)
        wrong = {"pool": by_pool, "executor": by_executor, "processes": by_processes}[options.by](Some(READS[options.kind]))
        print("%d of %d records missing or wrong" % (wrong, RECORDS) if wrong else "all right", flush=True)


if __name__ == "__main__":
    main()
