"""Jobs in which nothing hangs yet: lost threads that a worker would wait for, a file read by one position that
fork made all share, two OpenMP runtimes. Twin: the same job without the one mistake."""
import ctypes
import os
import shutil
import tempfile
import time

from hang_common import LIBC, Loader, claim, expect, run_kind, train

FILE_BYTES = 1 << 20
BODY = ctypes.cast(LIBC.free, ctypes.c_void_p)  # free(NULL) does nothing


def start_pool(library, threads):
    """Has the runtime start a team for the calling thread."""
    library.omp_set_num_threads(threads)
    library.GOMP_parallel(BODY, None, 0, 0)


def run_loader(fetch, options):
    expect(1)
    loader = Loader(fetch, options)
    claim("moves")
    train(loader)


def lost_pool(options):
    """The workers have the words of a team of two, and would ask for two; the twin's ask for one."""
    library = ctypes.CDLL("libgomp.so.1")
    start_pool(library, 2)

    def fetch(index):
        if options.healthy:
            library.omp_set_num_threads(1)
        return bytes(1000)

    run_loader(fetch, options)


def make_file():
    file = tempfile.NamedTemporaryFile()
    file.write(os.urandom(FILE_BYTES))
    file.flush()
    return file


def shared_position(options):
    """Workers seek in a file that the trainer had opened, and read; the twin's read at an offset."""
    data = make_file()
    handle = open(data.name, "rb", buffering=0)

    def fetch(index):
        time.sleep(0.002)
        offset = index * 7919 % (FILE_BYTES - 4096)
        if options.healthy:
            return os.pread(handle.fileno(), 1000, offset)
        handle.seek(offset)
        return handle.read(1000)

    run_loader(fetch, options)


def trainer_alone(options):
    """All have the file open, and the trainer alone reads it."""
    data = make_file()
    handle = open(data.name, "rb", buffering=0)
    expect(1)
    loader = Loader(lambda index: bytes(1000), options)
    claim("moves")
    for number, _ in enumerate(loader.samples()):
        handle.seek(number * 7919 % (FILE_BYTES - 4096))
        handle.read(1000)
        time.sleep(0.002)


def two_runtimes(options):
    """A copy of libgomp under the name that a wheel gives it, beside the system's."""
    library = ctypes.CDLL("libgomp.so.1")
    start_pool(library, 1)
    folder = tempfile.TemporaryDirectory()
    if not options.healthy:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            path = next(line.split()[-1] for line in maps if "libgomp.so" in line)
        copy = os.path.join(folder.name, "libgomp-a34b3233.so.1.0.0")
        shutil.copy(path, copy)
        start_pool(ctypes.CDLL(copy), 1)
    run_loader(lambda index: bytes(1000), options)


KINDS = {"lost-pool": lost_pool, "shared-position": shared_position, "trainer-alone": trainer_alone,
         "two-runtimes": two_runtimes}


if __name__ == "__main__":
    run_kind(__doc__, KINDS)
