"""A pool whose initializer fails in each worker: multiprocessing.Pool starts new ones without end. With --healthy the first
workers alone fail, as while a service starts. With --executor a task leaves its process, and the program takes a new
executor each time; with --healthy it succeeds at the fourth. With --recycled an executor does not replace the workers that have
done their five tasks (CPython issue 115634)."""
import concurrent.futures.process
import itertools
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


def decode(attempt):
    if attempt < 3 or "--healthy" not in sys.argv:
        os._exit(3)


def take_new_executors():
    for attempt in itertools.count():
        try:
            with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
                return executor.submit(decode, attempt).result()
        except concurrent.futures.process.BrokenProcessPool:
            time.sleep(0.2)


def recycle_workers():
    options = {} if "--healthy" in sys.argv else {"max_tasks_per_child": 5}
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), **options) as executor:
        for done in concurrent.futures.as_completed([executor.submit(divmod, number, 3) for number in range(60)]):
            done.result()


def main():
    if "--recycled" in sys.argv:
        recycle_workers()
        return
    if "--executor" in sys.argv:
        take_new_executors()
        return
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
