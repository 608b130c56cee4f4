#!/usr/bin/env python3
# Speech: a reader process streams features to the trainer over a queue, as in many ESPnet-like recipes.
import os
import sys
import time
import array
import queue
import threading
import multiprocessing as mp

MAXSIZE = int(os.environ.get("MAXSIZE", "0"))        # of the queue; 0: as many as come
STEP = float(os.environ.get("STEP", "0.05"))
UTTERANCES = int(os.environ.get("UTTERANCES", "60000"))


def features(number):
    return array.array("f", [number / 7.0] * 40000)


def reader(q):
    for number in range(UTTERANCES):
        time.sleep(0.004)
        q.put((number, features(number).tobytes()))
    q.put(None)


def main():
    if "--threads" in sys.argv:
        q = queue.Queue(MAXSIZE)
        threading.Thread(target=reader, args=(q,), daemon=True).start()
    else:
        q = mp.Queue(MAXSIZE)
        mp.Process(target=reader, args=(q,), daemon=True).start()
    seen = 0
    while (item := q.get()) is not None:
        seen += len(item[1])
        time.sleep(STEP)
    print(seen)


main()
