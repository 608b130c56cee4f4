"""Loads its data at module level, under the guard, or less of it beside three busy processes on its one CPU:
usage heavy_module.py [--healthy | --crowded]."""
import multiprocessing
import os
import subprocess
import sys
import time


def load(seconds):
    data = bytearray(64 << 20)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        for page in range(0, len(data), 4096):
            data[page] = 1
    return data


def work():
    pass


if "--healthy" not in sys.argv:
    DATA = load(0.4 if "--crowded" in sys.argv else 1.3)

if __name__ == "__main__":
    if "--healthy" in sys.argv:
        DATA = load(1.3)
    busy = []
    if "--crowded" in sys.argv:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    process = multiprocessing.Process(target=work)
    process.start()
    process.join()
    for other in busy:
        other.kill()
        other.wait()
