"""Counts what a feature pipeline does, and sends the counts to a collector in the background, which may be slow to answer."""
import argparse
import multiprocessing
import socket
import threading
import time
from concurrent.futures import ProcessPoolExecutor


class Stats:
    """A client as vendors write them: a lock, a dict, a thread that flushes."""

    def __init__(self, address):
        self.lock, self.counts, self.address = threading.Lock(), {}, address
        threading.Thread(target=self.flush_for_ever, daemon=True).start()

    def increment(self, name):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def flush_for_ever(self):
        while True:
            with self.lock, socket.create_connection(self.address) as collector:
                collector.sendall(repr(self.counts).encode())
                collector.recv(1)
            time.sleep(0.3)


def collector(delay):
    """Stands in for the vendor's agent on this machine."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            with server.accept()[0] as client:
                client.recv(4096)
                time.sleep(delay)
                client.sendall(b"k")

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()


stats = None


def features(row):
    if stats:
        stats.increment("rows")
    return sum(ord(letter) for letter in row) % 1009


def main():
    global stats
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=1.5)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--where", choices=["everywhere", "parent", "after-fork"], default="everywhere")
    args = parser.parse_args()
    address = collector(args.delay)
    rows = [f"user {number} bought item {number * 7 % 113}" for number in range(args.rows)]
    if args.where == "everywhere":
        stats = Stats(address)
        stats.increment("runs")
        time.sleep(0.5)  # reading the configuration
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
        results = executor.map(features, rows, chunksize=50)
        if args.where != "everywhere":
            stats = Stats(address)
        print("features", sum(results))


if __name__ == "__main__":
    main()
