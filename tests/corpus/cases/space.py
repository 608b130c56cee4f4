"""Jobs whose files have no space, or that may have no more memory. With --healthy there is enough, with --handled the job knows
what to do without."""
import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

MIB = 1 << 20


def small_folder(options):
    """A file system of its own as the folder for temporary files."""
    folder = tempfile.mkdtemp()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def write(mib):
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(mib):
            file.write(bytes(MIB))


def temporary(is_healthy):
    small_folder("size=64m" if is_healthy else "size=4m")
    write(8)


def temporary_of_worker(is_healthy):
    small_folder("size=64m" if is_healthy else "size=4m")
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
        return list(executor.map(write, [8] * 2))


def temporary_files(is_healthy):
    small_folder("size=4m,nr_inodes=" + ("200" if is_healthy else "20"))
    return [tempfile.mkstemp() for _ in range(40)]


def shm_file(is_healthy):
    with open("/dev/shm/cache", "wb") as file:
        for _ in range(8 if is_healthy else 80):
            file.write(bytes(MIB))
    os.unlink("/dev/shm/cache")


def semaphores(is_healthy):
    kept = []
    for _ in range(4 if is_healthy else 40):
        kept.append(multiprocessing.Semaphore(1))


def address_space(is_healthy):
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * MIB,) * 2)
    kept = None
    for _ in range((2 if is_healthy else 20) * 128):
        kept = kept, bytes(MIB // 16)  # small ones: in the end hardly anything is left


JOBS = {"temporary": temporary, "temporary-of-worker": temporary_of_worker, "temporary-files": temporary_files,
        "shm-file": shm_file, "semaphores": semaphores, "address-space": address_space}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("job", choices=JOBS)
    arguments.add_argument("--healthy", action="store_true")
    arguments.add_argument("--handled", action="store_true")
    options = arguments.parse_args()
    try:
        JOBS[options.job](options.healthy)
    except (OSError, MemoryError) as error:
        if not options.handled:
            raise
        print("did without:", type(error).__name__)


if __name__ == "__main__":
    sys.exit(main())
