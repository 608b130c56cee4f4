"""What the children need is set when the program runs, and not when it is imported: usage
set_under_guard.py name|changed|environment|task [--healthy]. --healthy hands it to them."""
import multiprocessing
import os
import sys

FACTORS = {}


def take(given):
    global factor
    FACTORS.update(given)
    factor = given.get("factor", 0)


def by_name(value):
    return value * factor


def by_table(value):
    return value * FACTORS["factor"]


def by_environment(value):
    return value * int(os.environ["CASE_FACTOR"])


class Late:
    """Can only be made where the table is full."""

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return make_late, (self.value,)


def make_late(value):
    if "factor" not in FACTORS:
        raise TypeError("no factor")
    return Late(value)


def by_object(late):
    return late.value * 3


if __name__ == "__main__":
    kind = sys.argv[1]
    given = {}
    if "--healthy" in sys.argv:
        given = {"initializer": take, "initargs": ({"factor": 3},)}
    work = {"name": by_name, "changed": by_table, "environment": by_environment, "task": by_object}[kind]
    if kind == "environment":
        # The forkserver, which is started here, keeps what it has then.
        if "--healthy" not in sys.argv:
            multiprocessing.Pool(1).terminate()
        os.environ["CASE_FACTOR"] = "3"
    else:
        take({"factor": 3})
    with multiprocessing.Pool(2, **given) as pool:
        values = [Late(each) if kind == "task" else each for each in range(4)]
        # A pool whose workers cannot read a task waits for it for ever.
        answer = pool.map_async(work, values).get(timeout=None if kind != "task" or given else 15)
    if answer != [0, 3, 6, 9]:
        sys.exit(1)
