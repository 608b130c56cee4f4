"""Trains a toy detector on synthetic tiles. A watchdog replaces workers that take too long for a tile."""
import argparse
import multiprocessing as mp
import random
import threading
import time

context = mp.get_context("fork")


class TileWorker(context.Process):
    def __init__(self, number, cache_lock, tasks, results, bad_tile):
        super().__init__(name=f"tiles-{number}", daemon=True)
        self.number, self.cache_lock, self.tasks, self.results, self.bad_tile = number, cache_lock, tasks, results, bad_tile
        self.give_up = context.Event()
        self.since = context.Value("d", 0.0)

    def run(self):
        while True:
            tile = self.tasks.get()
            with self.cache_lock:
                self.since.value = time.monotonic()
                pixels = self.decode(tile)
                self.since.value = 0.0
            self.results.put((tile, pixels))

    def decode(self, tile):
        end = time.monotonic() + (3600 if tile == self.bad_tile else random.uniform(0.002, 0.01))
        while time.monotonic() < end and not self.give_up.is_set():
            time.sleep(0.002)
        return bytes(tile % 256 for _ in range(4096))


class Trainer:
    def __init__(self, options):
        self.options = options
        self.shared_lock = context.Lock()
        self.tasks, self.results = context.Queue(), context.Queue()
        self.workers = [self.start_worker(number) for number in range(options.workers)]
        self.loss = 1.0

    def start_worker(self, number):
        lock = context.Lock() if self.options.private_caches else self.shared_lock
        worker = TileWorker(number, lock, self.tasks, self.results, self.options.bad_tile)
        worker.start()
        return worker

    def watchdog(self):
        while True:
            time.sleep(0.1)
            for worker in list(self.workers):
                since = worker.since.value
                if since and time.monotonic() - since > self.options.time_limit:
                    self.replace(worker)

    def replace(self, worker):
        if self.options.polite:
            worker.give_up.set()
            return
        worker.kill()
        worker.join()
        self.workers[self.workers.index(worker)] = self.start_worker(worker.number + 100)
        self.results.put((self.options.bad_tile, None))

    def fit(self):
        threading.Thread(target=self.watchdog, daemon=True).start()
        for epoch in range(self.options.epochs):
            for tile in range(self.options.tiles):
                self.tasks.put(tile + epoch * self.options.tiles)
            for _ in range(self.options.tiles):
                _tile, pixels = self.results.get()
                self.loss *= 0.999 if pixels else 1
            print(f"epoch {epoch}: loss {self.loss:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--tiles", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--bad-tile", type=int, default=60, help="its file is damaged, and its decoder never ends")
    parser.add_argument("--time-limit", type=float, default=1.0)
    parser.add_argument("--polite", action="store_true", help="ask a slow worker to give the tile up")
    parser.add_argument("--private-caches", action="store_true")
    Trainer(parser.parse_args()).fit()


if __name__ == "__main__":
    main()
