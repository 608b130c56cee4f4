"""Starts the training again after each crash, as our cluster script does. One training is one child with feeder processes."""
import argparse
import os
import random
import subprocess
import sys
import time
from multiprocessing import Pipe, Process


def feed(connection, size):
    """Sends batches for as long as somebody takes them."""
    generator = random.Random(os.getpid())
    while True:
        connection.send_bytes(generator.randbytes(size))


class Feeders:
    def __init__(self, count, size):
        self.ends, processes = [], []
        for _ in range(count):
            mine, theirs = Pipe()
            process = Process(target=feed, args=(theirs, size), daemon=True)
            process.start()
            processes.append(process)
            self.ends.append(mine)
        self.processes = processes

    def batches(self):
        while True:
            for end in self.ends:
                yield end.recv_bytes()

    def stop(self):
        for process in self.processes:
            process.terminate()
            process.join()


def train(options):
    feeders = Feeders(options.feeders, options.batch_bytes)
    loss = 10.0
    for step, batch in enumerate(feeders.batches()):
        loss *= 0.99 + 0.001 * (batch[0] / 255)
        if step == options.crash_at and options.attempt < options.crashes:
            print("loss is nan, giving up", flush=True)
            if options.clean:
                feeders.stop()
            os._exit(17)  # exit handlers of the GPU library hang
        if step == options.steps:
            break
        time.sleep(0.01)
    feeders.stop()
    print(f"attempt {options.attempt}: loss {loss:.3f}", flush=True)


def supervise(options):
    for attempt in range(options.crashes + 1):
        command = [sys.executable, *sys.argv, "--attempt", str(attempt)]
        code = subprocess.call(command)
        if code == 0:
            return 0
        print(f"attempt {attempt} ended with {code}, again", flush=True)
        time.sleep(options.back_off)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--feeders", type=int, default=2)
    parser.add_argument("--batch-bytes", type=int, default=1 << 17)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--crash-at", type=int, default=100)
    parser.add_argument("--crashes", type=int, default=1)
    parser.add_argument("--back-off", type=float, default=0, help="seconds before the next attempt")
    parser.add_argument("--clean", action="store_true", help="stop the feeders before the exit")
    parser.add_argument("--attempt", type=int)
    options = parser.parse_args()
    if options.attempt is None:
        return supervise(options)
    return train(options)


if __name__ == "__main__":
    sys.exit(main())
