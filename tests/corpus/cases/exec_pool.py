"""A pool whose workers are programs of their own that multiprocessing counts as its children, as those of loky. One of them
crashes; the pool kills the other, and raises what an executor does. Healthy: both do their work."""
import ctypes
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from subprocess import Popen


class Program:
    def __init__(self, process):
        self.child = Popen([sys.executable, __file__, "--work", str(process.number), *sys.argv[1:]])
        self.pid, self.sentinel = self.child.pid, None
        self.poll, self.wait = self.child.poll, self.child.wait

    @property
    def returncode(self):
        return self.child.returncode


class Worker(BaseProcess):
    _Popen = Program

    def __init__(self, number):
        BaseProcess.__init__(self)
        self.number = number


def work(number):
    time.sleep(1)
    if number == 1 and "--healthy" not in sys.argv:
        ctypes.string_at(8)
    time.sleep(1 if "--healthy" in sys.argv else 60)


if "--work" in sys.argv:
    work(int(sys.argv[2]))
elif __name__ == "__main__":
    workers = [Worker(number) for number in range(2)]
    for worker in workers:
        worker.start()
    if workers[1]._popen.wait() != 0:
        workers[0]._popen.child.kill()
        workers[0]._popen.wait()
        raise BrokenProcessPool("a worker ended abruptly")
    workers[0]._popen.wait()
