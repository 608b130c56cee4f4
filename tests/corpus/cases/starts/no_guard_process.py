"""Starts a process at module level."""
import multiprocessing


def work(queue):
    queue.put(1)


channel = multiprocessing.Queue()
process = multiprocessing.Process(target=work, args=(channel,))
process.start()
process.join()
