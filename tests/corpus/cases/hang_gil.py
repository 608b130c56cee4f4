"""A thread of a worker is blocked in native code and keeps the GIL; the worker's main thread wants it. No torch.

Twin: the same calls give the GIL away, and the main thread works on.
"""
import ctypes
import os
import threading
import time

from hang_common import LIBC, LIBC_WITH_GIL, Loader, NativeMutex, claim, expect, in_thread, parser, train


def sleep(library):
    library.sleep(1000)


def read(library):
    reader, _writer = os.pipe()
    library.read(reader, ctypes.create_string_buffer(16), 16)


def mutex(library):
    """Its holder is a thread that sleeps in native code, without the GIL."""
    held = NativeMutex()
    taken = threading.Event()
    in_thread(lambda: (held.acquire(), taken.set(), LIBC.sleep(1000)))
    taken.wait()
    library.pthread_mutex_lock(held.memory)


KINDS = {"sleep": sleep, "read": read, "mutex": mutex}


def main():
    options = parser(__doc__, KINDS).parse_args()
    library = LIBC if options.healthy else LIBC_WITH_GIL

    def helper():
        claim("still")
        KINDS[options.kind](library)

    def fetch(index):
        if index == 0:
            in_thread(helper)
            if options.healthy:
                claim("moves")
            while not options.healthy:
                time.sleep(0.05)  # gives the GIL away; once it does not come back
        time.sleep(0.002)
        return index

    options.workers = 1
    expect(2 if options.healthy else 1)  # one that waits for the GIL wakes every 5 ms
    train(Loader(fetch, options))


if __name__ == "__main__":
    main()
