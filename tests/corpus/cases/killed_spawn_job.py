"""A spawn job that is killed together with its resource tracker: its named semaphores stay behind.

Twin: the job ends by itself, and the tracker has nothing to do.
"""
import os
import signal
from multiprocessing import resource_tracker

from common import make_loader, parser, train


def main():
    options = parser(__doc__).parse_args()
    options.start_method = "spawn"
    loader = make_loader(options)
    if options.healthy:
        train(loader, options)
        return
    iterator = iter(loader)
    next(iterator)
    workers = [worker.pid for worker in iterator._workers]
    for pid in [resource_tracker._resource_tracker._pid] + workers + [os.getpid()]:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
