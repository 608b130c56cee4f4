"""A job that makes 32 blocks of shared memory in four seconds and ends: it leaves them all. Healthy: it unlinks each. With
--tracked it dies with them, and Python's resource tracker removes them. No torch; Python 3.8 and later."""
import argparse
import os
import time
from multiprocessing import resource_tracker, shared_memory


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--healthy", action="store_true")
    arguments.add_argument("--tracked", action="store_true")
    options = arguments.parse_args()
    blocks = []
    print("ready", flush=True)
    for number in range(32):
        block = shared_memory.SharedMemory(create=True, size=1 << 20)
        block.buf[:] = bytes([number]) * (1 << 20)
        if not options.tracked and not options.healthy:
            resource_tracker.unregister(block._name, "shared_memory")
        blocks.append(block)
        time.sleep(0.125)
    for block in blocks:
        block.close()
        if options.healthy:
            block.unlink()
    os._exit(0)


if __name__ == "__main__":
    main()
