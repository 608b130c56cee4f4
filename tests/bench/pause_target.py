"""A process with threads that wait, and one that runs native code and measures its own pauses.

usage: pause_target.py LIBRARY THREADS

LIBRARY is gap_meter. Each line of input is answered with the longest pause in ns since the last.
"""

import ctypes
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.gap_meter_take.restype = ctypes.c_int64
never = threading.Event()


def wait(depth):
    if depth > 0:
        wait(depth - 1)
    else:
        never.wait()


threading.Thread(target=library.gap_meter_run, daemon=True).start()
for _ in range(int(sys.argv[2]) - 2):
    threading.Thread(target=wait, args=(10,), daemon=True).start()
for _ in sys.stdin:
    print(library.gap_meter_take(), flush=True)
