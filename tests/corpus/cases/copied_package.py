"""A child of the package "multiprocess", which is a copy of multiprocessing, crashes. Healthy: it does its work."""
import ctypes
import multiprocessing
import os
import shutil
import sys
import tempfile

FOLDER = tempfile.mkdtemp(prefix="dlp-copied-")
shutil.copytree(os.path.dirname(multiprocessing.__file__), os.path.join(FOLDER, "multiprocess"))
sys.path.insert(0, FOLDER)
from multiprocess.context import ForkProcess  # noqa: E402


def work():
    if "--healthy" not in sys.argv:
        ctypes.string_at(8)


if __name__ == "__main__":
    process = ForkProcess(target=work)
    process.start()
    shutil.rmtree(FOLDER)
    process.join()
    sys.exit(process.exitcode != 0)
