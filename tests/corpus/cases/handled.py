"""Children of a program's own that fail: usage handled.py run|fork|start|crash|many|process [--passes-on] [--unread]. The program looks at their codes and
goes on; with --passes-on it fails of them."""
import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import time

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


def many():
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        return set(executor.map(lambda _: run("1/0"), range(10)))


def fails():
    os.close(2)
    raise RuntimeError("this child is meant to fail")


def process():
    child = multiprocessing.get_context("fork").Process(target=fails)
    child.start()
    child.join()
    return None if "--unread" in sys.argv else child.exitcode


def crash():
    pid = os.fork()
    if pid == 0:
        time.sleep(1)  # in which it is seen
        os.kill(os.getpid(), signal.SIGABRT)
    status = os.waitpid(pid, 0)[1]
    if "--passes-on" in sys.argv:
        raise RuntimeError("a child has crashed")
    time.sleep(2)  # in which a watcher may take it for more than it is
    return status


if __name__ == "__main__":
    JOBS = {"run": lambda: run("1/0"), "start": lambda: run(CHILD), "fork": fork, "crash": crash, "many": many, "process": process}
    print("the child left with", JOBS[sys.argv[1]]())
