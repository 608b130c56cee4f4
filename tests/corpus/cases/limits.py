"""Jobs that reach a limit of processes, threads or descriptors. `--in-group N` runs one in a cgroup of N processes and threads,
`--as-user N` as a user who may have N. With --healthy there is room for all, or the job knows what to do without."""
import argparse
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# A real user with a limit that holds it, who still may write where root may: as another user the witness's folder is closed to it.
LIMITED = ["setpriv", "--ruid=65532", "--bounding-set=-sys_resource,-sys_admin", "prlimit"]
WANTED = 12


def stay():
    time.sleep(3)


def children(method):
    context = multiprocessing.get_context(method)
    started = [context.Process(target=stay, daemon=True) for _ in range(WANTED)]
    for process in started:
        process.start()


def threads():
    for _ in range(WANTED):
        threading.Thread(target=stay, daemon=True).start()


def executor():
    with ThreadPoolExecutor(WANTED) as pool:
        list(pool.map(time.sleep, [0.5] * WANTED))


def bare_fork():
    for _ in range(WANTED):
        if os.fork() == 0:
            stay()
            os._exit(0)


def programs():
    started = []
    for _ in range(WANTED):
        started.append(subprocess.Popen(["sleep", "3"]))


def threads_of_worker():
    """A pool whose workers start threads of their own."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map_async(start_threads, range(2)).get(timeout=20)


def start_threads(_number):
    threads()
    stay()


def zombies():
    """Programs that end, and that nobody waits for."""
    for _ in range(5 * WANTED):
        os.posix_spawn("/bin/true", ["true"], os.environ)
        time.sleep(0.02)


JOBS = {"fork": lambda: children("fork"), "spawn": lambda: children("spawn"), "threads": threads, "executor": executor,
        "bare-fork": bare_fork, "programs": programs, "threads-of-worker": threads_of_worker,
        "zombies": zombies}


def in_group(limit, command):
    from deaths_common import group_of, run_in
    with group_of("pids", {"pids.max": limit}) as group:
        return subprocess.run(command, preexec_fn=run_in(group), check=False).returncode


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("job", choices=JOBS)
    arguments.add_argument("--in-group", type=int)
    arguments.add_argument("--as-user", type=int)
    arguments.add_argument("--healthy", action="store_true")
    arguments.add_argument("--handled", action="store_true")
    options = arguments.parse_args()
    itself = [sys.executable, __file__, options.job, *(["--handled"] if options.handled else [])]
    if options.in_group:
        sys.exit(in_group(1000 if options.healthy else options.in_group, itself))
    if options.as_user:
        limit = 1000 if options.healthy else options.as_user
        os.execvp(LIMITED[0], [*LIMITED, f"--nproc={limit}", *itself])
    try:
        JOBS[options.job]()
    except Exception as error:
        if not options.handled:
            raise
        print("did without:", type(error).__name__)


if __name__ == "__main__":
    main()
