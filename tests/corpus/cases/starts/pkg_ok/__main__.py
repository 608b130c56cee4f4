"""Starts a worker whose function is in a sibling module."""
import multiprocessing

from .work import work

if __name__ == "__main__":
    process = multiprocessing.Process(target=work)
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
