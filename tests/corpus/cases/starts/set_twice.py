"""Sets the start method, and later once more: usage set_twice.py [--healthy]."""
import multiprocessing
import sys


def work():
    pass


def library():
    multiprocessing.set_start_method("spawn")


if __name__ == "__main__":
    library()
    process = multiprocessing.Process(target=work)
    process.start()
    process.join()
    if "--healthy" not in sys.argv:
        multiprocessing.set_start_method("spawn")
