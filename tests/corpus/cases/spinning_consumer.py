"""A consumer asks shared memory in a loop for what a producer is to write, which has ended with code 3. No torch.

Twin: the producer writes all, and the consumer is slow.
"""
import argparse
import multiprocessing
import os
import signal
import struct
import time
from multiprocessing import shared_memory

signal.alarm(120)
os.register_at_fork(after_in_child=lambda: signal.alarm(120))
PRODUCED = 200


def produce(name):
    block = shared_memory.SharedMemory(name)
    for number in range(1, PRODUCED + 1):
        struct.pack_into("<Q", block.buf, 0, number)
        time.sleep(0.005)
    raise SystemExit(3)


def consume(name, wanted, rounds):
    """Twice as many as are produced, or what is there, and then it counts for a while."""
    block = shared_memory.SharedMemory(name)
    while struct.unpack_from("<Q", block.buf, 0)[0] < wanted:
        pass
    for _ in range(rounds):
        sum(range(100))
        with open(os.devnull, "wb", 0) as file:
            file.write(b"x")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--healthy", action="store_true", help="the twin that nothing is wrong with")
    options = parser.parse_args()
    block = shared_memory.SharedMemory(create=True, size=4096)
    wanted, rounds = (PRODUCED, 400_000) if options.healthy else (2 * PRODUCED, 0)
    children = [multiprocessing.Process(target=produce, args=(block.name,)),
                multiprocessing.Process(target=consume, args=(block.name, wanted, rounds))]
    for child in children:
        child.start()
    for child in children:
        child.join()
    block.close()
    block.unlink()


if __name__ == "__main__":
    main()
