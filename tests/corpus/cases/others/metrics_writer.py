"""Feature statistics by blocks, with a metrics writer that sends from a thread (as the writers of experiment trackers do)."""
import atexit
import json
import multiprocessing
import queue
import random
import sys
import tempfile
import threading


class MetricsWriter:
    """Keeps what is to be written in a queue, so that training never waits for the disk."""

    def __init__(self, path, capacity=50):
        self.file = open(path, "a", encoding="utf-8")
        self.queue = queue.Queue(capacity)
        self.thread = threading.Thread(target=self._write_all, daemon=True)
        self.thread.start()

    def _write_all(self):
        while True:
            record = self.queue.get()
            self.file.write(json.dumps(record) + "\n")
            self.queue.task_done()

    def scalar(self, name, value, step):
        self.queue.put({"name": name, "value": value, "step": step})

    def flush(self):
        self.queue.join()
        self.file.flush()


class NoWriter:
    def scalar(self, *_record):
        pass


writer = None


def describe(block):
    generator = random.Random(block)
    values = [generator.gauss(0, 1) for _ in range(4000)]
    mean = sum(values) / len(values)
    for step in range(0, len(values), 500):
        writer.scalar(f"block{block}/mean", sum(values[:step + 1]) / (step + 1), step)
    return block, mean


def use(new):
    global writer
    writer = new


def own_writer(path):
    use(MetricsWriter(path))
    multiprocessing.util.Finalize(writer, writer.flush, exitpriority=10)


def main(argv):
    global writer
    path = tempfile.NamedTemporaryFile(suffix=".jsonl").name
    writer = MetricsWriter(path)
    atexit.register(writer.flush)
    writer.scalar("blocks", 200, 0)
    setup = {}
    if "--own" in argv:
        setup = {"initializer": own_writer, "initargs": (path,)}
    elif "--silent-workers" in argv:
        setup = {"initializer": use, "initargs": (NoWriter(),)}
    with multiprocessing.get_context("fork").Pool(2, **setup) as pool:
        for block, mean in pool.imap(describe, range(200)):
            writer.scalar("mean", mean, block)
        pool.close()
        pool.join()
    print("done", block + 1)


if __name__ == "__main__":
    main(sys.argv[1:])
