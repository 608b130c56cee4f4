"""Threads that call left_1 ... left_9, return, call right_1 ... right_9, return, for ever.

usage: python_runner.py [wait]

With "wait" they wait in left_9. So it can be told from a stack whether its frames stood there at one moment. Says "pid N" when all
run; ends at the end of its input.
"""

import os
import sys
import threading

DEPTH = 9
THREADS = 3


if "wait" in sys.argv:
    work = threading.Event().wait
else:
    def work():
        sum(range(20))


def make(side):
    namespace = {"work": work}
    source = [f"def {side}_{DEPTH}():\n    work()\n"]
    for depth in range(DEPTH - 1, 0, -1):
        source.append(f"def {side}_{depth}():\n    {side}_{depth + 1}()\n")
    exec("\n".join(source), namespace)
    return namespace[f"{side}_1"]


left, right = make("left"), make("right")
started = threading.Barrier(THREADS + 1)


def turn():
    started.wait()
    while True:
        left()
        right()


for _ in range(THREADS):
    threading.Thread(target=turn, daemon=True).start()
started.wait()
print("pid", os.getpid(), flush=True)
sys.stdin.read()
os._exit(0)
