"""CPU time in microseconds that psutil takes per process-sample of what dlprobe samples: one line.

usage: sampling_cost.py ROOT_PID
"""

import sys
import time

import psutil

ROUNDS = 30


def main() -> None:
    root = psutil.Process(int(sys.argv[1]))
    processes = [root, *root.children(recursive=True)]
    before = time.process_time()
    for _ in range(ROUNDS):
        for process in processes:
            with process.oneshot():
                process.status()
                process.ppid()
                process.cpu_times()
                process.num_threads()
                process.memory_info()
    took = time.process_time() - before
    print(1e6 * took / ROUNDS / len(processes))


if __name__ == "__main__":
    main()
