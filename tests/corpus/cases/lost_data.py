"""Workers that overwrite what is read again, or end without what they wrote; the other kinds are healthy ones like it.

The fault is counted: samples that came with other values than those of their number, or rows that are missing."""
import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time

FOLDER = tempfile.mkdtemp()
LOCK = multiprocessing.Lock()
TASKS = 120


def through_file(path, number):
    with open(path, "w") as file:
        file.write(str(number))
    time.sleep(.002)
    with open(path) as file:
        return int(file.read() or -1)


def one_file(number):
    return through_file(FOLDER + "/one", number)


def one_file_locked(number):
    with LOCK:
        return one_file(number)


def own_file(number):
    return through_file(FOLDER + "/%d" % os.getpid(), number)


def one_index(number):
    """Each adds to what the others wrote."""
    with LOCK:
        path, known = FOLDER + "/index", {}
        if os.path.exists(path):
            with open(path) as file:
                known = json.load(file)
        known[str(number)] = number
        with open(path, "w") as file:
            json.dump(known, file)
    time.sleep(.001)
    return number


def run_pool(task):
    with multiprocessing.get_context("fork").Pool(3) as pool:
        return sum(number != made for number, made in enumerate(pool.imap(task, range(TASKS), 4)))


def write_rows(file, numbers, is_flushed):
    for number in numbers:
        file.write("%d\n" % number)
        if is_flushed:
            file.flush()


def run_rows(is_flushed):
    """Into a file object of before the fork."""
    with open(FOLDER + "/rows", "a") as file:
        children = [multiprocessing.get_context("fork").Process(target=write_rows, args=(file, range(first, 300, 3), is_flushed))
                    for first in range(3)]
        for each in children:
            each.start()
        for each in children:
            each.join()
    with open(FOLDER + "/rows") as file:
        return 300 - len(file.readlines())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    kind = parser.parse_args().kind
    runs = {"rows": lambda: run_rows(False), "rows-flushed": lambda: run_rows(True)}
    tasks = {"one-file": one_file, "one-file-locked": one_file_locked, "own-file": own_file, "one-index": one_index}
    lost = runs[kind]() if kind in runs else run_pool(tasks[kind])
    shutil.rmtree(FOLDER)
    print("lost", lost)
    sys.exit(0 if (lost > 0) == (kind in ("one-file", "rows")) else "it did not come to it")


if __name__ == "__main__":
    main()
