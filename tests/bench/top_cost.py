"""What the live view costs: CPU time of `dlprobe top` on a trainer with 63 workers, ten looks a second.

usage: top_cost.py DLPROBE [SECONDS]

Prints the share of one CPU, and that of the same watch without a screen (`dlprobe attach`, which takes stacks, too).
Each of the workers reads and writes a pipe twenty times a second.
"""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time

WORKERS = 63
JOB = f"""
import os, sys, threading, time
go = os.pipe()
for _ in range({WORKERS}):
    if os.fork() == 0:
        with open("/proc/self/comm", "w", encoding="utf-8") as comm: comm.write("pt_data_worker")
        os.close(go[1])
        mine = os.pipe()
        def write():
            while True:
                os.write(mine[1], b"x")
                time.sleep(0.05)
        threading.Thread(target=write, daemon=True).start()
        while os.read(mine[0], 1): pass
print(os.getpid(), flush=True)
sys.stdin.readline()
os.killpg(0, 9)
"""


def share_of(arguments, seconds, stop):
    """CPU time over wall time of dlprobe with a terminal of 120 x 70, from its fifth second on: its start is left out."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 70, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)

        def drain():
            with contextlib.suppress(OSError):
                while os.read(ours, 65536):
                    pass
        reader = threading.Thread(target=drain)
        reader.start()
        time.sleep(5)
        before, began = cpu_of(process.pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu_of(process.pid) - before) / (time.monotonic() - began)
        stop(process, ours)
        process.wait()
        reader.join()
    os.close(ours)
    return share


def cpu_of(pid):
    """CPU seconds of all its threads."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def main() -> None:
    dlprobe, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 20
    with subprocess.Popen([sys.executable, "-c", JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          start_new_session=True) as job:
        pid = job.stdout.readline().decode().strip()
        top = share_of([dlprobe, "top", pid, "--interval", "100ms"], seconds, lambda _, keys: os.write(keys, b"q"))
        attach = share_of([dlprobe, "attach", pid, "--for", "1h"], seconds, lambda process, _: process.terminate())
        job.stdin.close()
    print(f"top, 64 processes, 10 looks a second: {100 * top:.2f} % of a CPU; attach: {100 * attach:.2f} %")


if __name__ == "__main__":
    main()
