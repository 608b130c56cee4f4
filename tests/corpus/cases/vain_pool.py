"""A pool whose initializer fails in each worker: multiprocessing.Pool starts new ones without end. With --healthy the first
workers alone fail, as while a service starts."""
import multiprocessing
import os
import sys
import tempfile
import time


def open_vocabulary(path):
    with open(path, encoding="utf-8") as file:
        file.read()


def encode(number):
    time.sleep(0.2)
    return number


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocabulary")
        with multiprocessing.get_context("fork").Pool(2, open_vocabulary, (path,)) as pool:
            result = pool.map_async(encode, range(100))
            if "--healthy" in sys.argv:
                time.sleep(3)
                with open(path, "w", encoding="utf-8"):
                    pass
            result.wait()


if __name__ == "__main__":
    main()
