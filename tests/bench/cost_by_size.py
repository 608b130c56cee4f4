#!/usr/bin/env python3
"""How the cost of a look grows with the size of the job: processor time of `dlprobe attach --for 0s`, and of each later look.

    cost_by_size.py DLPROBE [--rounds N] [SIZE ...]

SIZE is processes, threads, libraries, descriptors, mappings or shm-files (default: all). For each, one job is made at four
sizes, four times as large from one to the next. Printed: the median CPU time at each size beside that of a job of size 1, and
the exponent b of time = base + a * size^b over the three largest steps: 1 is linear, 2 quadratic. Needs root: the files lie in
a /dev/shm of its own. Asserts nothing; figures belong to a quiet machine.
"""
import argparse
import math
import os
import resource
import statistics
import subprocess
import sys

MAY_OPEN = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
LARGEST = {"processes": 256, "threads": 1024, "libraries": 512, "descriptors": min(20_000, MAY_OPEN - 100), "mappings": 60_000,
           "shm-files": 20_000}
STEPS = (64, 16, 4, 1)  # parts of the largest
WATCH_S = 3
JOB = r"""
import ctypes, mmap, os, resource, shutil, sys, tempfile, threading, time
kind, count = sys.argv[1], int(sys.argv[2])
kept = []
if kind == "processes":
    for _ in range(count):
        if os.fork() == 0:
            sys.stdin.close(); os.close(0)
            time.sleep(10_000)
elif kind == "threads":
    threading.stack_size(1 << 16)
    for _ in range(count): threading.Thread(target=time.sleep, args=(10_000,), daemon=True).start()
elif kind == "libraries":
    folder = tempfile.TemporaryDirectory()
    for each in range(count):
        kept.append(ctypes.CDLL(shutil.copy(sys.argv[3], f"{folder.name}/lib{each}.so")))
elif kind == "descriptors":
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for _ in range(count): os.dup(1)
elif kind == "mappings":  # of two protections in turn, which the kernel cannot join
    for each in range(count): kept.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ | (mmap.PROT_WRITE if each % 2 else 0)))
elif kind == "shm-files":
    for each in range(count):
        with open(f"/dev/shm/torch_{os.getpid()}_{each}_0", "wb") as file: file.write(b"x")
print("ready", flush=True)
sys.stdin.readline()
if kind == "processes": os.killpg(0, 9)
if kind == "shm-files":
    for each in range(count): os.unlink(f"/dev/shm/torch_{os.getpid()}_{each}_0")
"""


def cpu_seconds(command):
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        usage = os.wait4(process.pid, 0)[2]
        process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def cost(options, kind, count):
    """Median CPU time in seconds of one look, and of each of ten later looks a second."""
    # A library of the interpreter's own: small, and its copies are of use to nobody.
    library = subprocess.run([sys.executable, "-c", "import _posixshmem; print(_posixshmem.__file__)"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout.strip()
    command = [sys.executable, "-c", JOB, kind, str(count), library]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        if not job.stdout.readline():
            sys.exit(f"cost_by_size.py: the job with {count} {kind} did not start; see above")
        try:
            attach = [options.dlprobe, "attach", "--json", "--interval", "100ms", str(job.pid)]
            once = [cpu_seconds([*attach, "--for", "0s"]) for _ in range(options.rounds)]
            watched = cpu_seconds([*attach, "--for", f"{WATCH_S}s"])
        finally:
            job.communicate("\n")
    first = statistics.median(once)
    return first, max(0.0, watched - first) / (10 * WATCH_S)


def exponent(sizes, seconds, base):
    """Of the largest two sizes, over the cost of a job of size 1; None where that is lost in noise."""
    small, large = (max(0.0, each - base) for each in seconds[-2:])
    if small < 0.002 or large <= small:
        return None
    return math.log(large / small) / math.log(sizes[-1] / sizes[-2])


def say(values, digits=0):
    return ", ".join(f"{1e3 * value:.{digits}f}" for value in values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlprobe")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("size", nargs="*", metavar="SIZE", help=", ".join(LARGEST))
    options = parser.parse_args()
    if wrong := set(options.size) - set(LARGEST):
        parser.error(f"no such size: {', '.join(sorted(wrong))}; there are {', '.join(LARGEST)}")
    if not options.inside:
        mount = 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"'
        sys.exit(subprocess.run(["unshare", "-m", "sh", "-c", mount, sys.executable, __file__, "--inside", *sys.argv[1:]], check=False).returncode)
    base, base_later = cost(options, "threads", 1)
    print(f"a job of size 1: {1e3 * base:.0f} ms of CPU for a look, {1e3 * base_later:.1f} ms for each later one")
    for kind in options.size or LARGEST:
        sizes = [LARGEST[kind] // part for part in STEPS]
        measured = [cost(options, kind, size) for size in sizes]
        looks, later = zip(*measured)
        fits = [exponent(sizes, column, floor) for column, floor in ((looks, base), (later, base_later))]
        words = ["lost in noise" if fit is None else f"{fit:.2f}" for fit in fits]
        print(f"{kind} {', '.join(map(str, sizes))}: first look {say(looks)} ms, exponent {words[0]}; "
              f"each later {say(later, 1)} ms, exponent {words[1]}", flush=True)


if __name__ == "__main__":
    main()
