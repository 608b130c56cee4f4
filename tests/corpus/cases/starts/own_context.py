"""Asks for the start method itself: usage own_context.py METHOD."""
import multiprocessing
import sys


def work():
    pass


if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    process.start()
    process.join()
    sys.exit(process.exitcode)
