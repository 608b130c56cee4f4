"""A module that fills its table by a Pool while it is imported. A function of its own is pickled by a name that the
pool's thread imports, too; one of another module is not."""
import multiprocessing
import os
import sys

from hang_common import claim


def base_of(path):
    return os.path.basename(path)


HEALTHY = "--healthy" in sys.argv
with multiprocessing.Pool(2) as pool:
    claim("moves" if HEALTHY else "still")
    while True:
        table = pool.map(os.path.basename if HEALTHY else base_of, ["a/b", "c/d"] * 20)
