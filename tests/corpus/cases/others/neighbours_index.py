"""Nearest neighbours of image embeddings. The index is a C library, bound by hand; its lock file keeps writers apart."""
import argparse
import ctypes
import fcntl
import math
import os
import queue
import random
import tempfile
import threading
import time
from multiprocessing import Process, Queue


class Index:
    """`library` is PyDLL in our first binding: it saves the release of the GIL in short calls."""

    def __init__(self, path, library):
        self.file = open(path, "a+b")
        self.c = library(None)

    def __enter__(self):
        if self.c.flock(self.file.fileno(), fcntl.LOCK_EX) != 0:
            raise OSError("index is locked")
        return self

    def __exit__(self, *_exception):
        self.c.flock(self.file.fileno(), fcntl.LOCK_UN)

    def add(self, vector):
        self.file.write(b"%d " % int(1000 * vector[0]))
        self.file.flush()


def embed(image):
    draw = random.Random(image)
    vector = [draw.gauss(0, 1) for _ in range(256)]
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def indexer(images, done, path, library):
    index = Index(path, library)
    sizes = queue.Queue()

    def report():
        for size in iter(sizes.get, None):
            done.put(size)

    threading.Thread(target=report, daemon=True).start()
    for image in iter(images.get, None):
        vector = embed(image)
        with index:
            index.add(vector)
        sizes.put(image)


def compact(path, seconds):
    """Rewrites the index at night; nobody may write meanwhile."""
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--compaction", type=float, default=3600, help="seconds that it takes")
    parser.add_argument("--release-gil", action="store_true")
    args = parser.parse_args()
    library = ctypes.CDLL if args.release_gil else ctypes.PyDLL
    images, done = Queue(), Queue()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vectors.idx")
        workers = [Process(target=indexer, args=(images, done, path, library), daemon=True) for _ in range(2)]
        for worker in workers:
            worker.start()
        for image in range(args.images // 2):
            images.put(image)
        for _ in range(args.images // 2):
            done.get()
        compaction = Process(target=compact, args=(path, args.compaction), daemon=True)
        compaction.start()
        time.sleep(0.5)  # the nightly import begins
        for image in range(args.images // 2):
            images.put(image)
        for _ in range(args.images // 2):
            done.get()
        for _ in workers:
            images.put(None)
        compaction.join()
        print(os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
