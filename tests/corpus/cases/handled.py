"""Children of a program's own that fail: usage handled.py run|fork|start [--passes-on]. The program looks at their codes and
goes on; with --passes-on it fails of them."""
import os
import subprocess
import sys

CHILD = "import multiprocessing as mp; mp.get_context('spawn').Process(target=lambda: 1).start()"


def run(text):
    return subprocess.run([sys.executable, "-c", text], stderr=subprocess.DEVNULL, check="--passes-on" in sys.argv).returncode


def fork():
    pid = os.fork()
    if pid == 0:
        raise ValueError("this child is meant to fail")
    code = os.waitpid(pid, 0)[1] >> 8
    if "--passes-on" in sys.argv:
        raise RuntimeError("a child has failed")
    return code


if __name__ == "__main__":
    JOBS = {"run": lambda: run("1/0"), "start": lambda: run(CHILD), "fork": fork}
    print("the child left with", JOBS[sys.argv[1]]())
