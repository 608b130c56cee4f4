"""Beside a job: kills the process that the job names, by the signal given. Ends soon after."""
import os
import signal
import sys
import time


def main():
    which = getattr(signal, sys.argv[1])
    path = os.path.join(os.environ["TMPDIR"], "kill-me")
    print("ready", flush=True)
    for _ in range(1500):
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                for pid in file.read().split():
                    os.kill(int(pid), which)
            return time.sleep(2)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
