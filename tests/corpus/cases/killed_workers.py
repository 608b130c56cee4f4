"""Workers killed by SIGKILL under file_system: the training loop catches the error and goes on, and
the dead workers' batches stay in /dev/shm while it lives. With --everything the job, its workers
and its managers die together, so nothing is left to unlink them.

Twin: the workers end by themselves, and their batches go with them.
"""
import os
import signal
import time

from common import make_loader, parser, say


def comm_of(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def managers():
    """The torch_shm_manager processes that see our mounts."""
    here = os.stat("/proc/self/ns/mnt").st_ino
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if comm_of(name).startswith("torch_shm") and os.stat(f"/proc/{name}/ns/mnt").st_ino == here:
                found.append(int(name))
        except OSError:
            continue  # it ended meanwhile
    return found


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--everything", action="store_true")
    arguments.add_argument("--live-s", type=float, default=8)
    options = arguments.parse_args()
    options.strategy = "file_system"
    loader = make_loader(options)
    iterator = iter(loader)
    kept = [next(iterator) for _ in range(options.workers)]  # connects us to each worker's manager
    time.sleep(1)  # the workers fill their share of the prefetch
    workers = [worker.pid for worker in iterator._workers]
    if options.everything:
        for pid in managers() + workers + [os.getpid()]:
            os.kill(pid, signal.SIGKILL)
    if options.healthy:
        kept += list(iterator)
    else:
        try:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            time.sleep(1)
        except RuntimeError as error:  # raised by the handler of SIGCHLD
            say(f"goes on after: {error}")
    del iterator
    if options.healthy:
        kept.clear()
    time.sleep(options.live_s)


if __name__ == "__main__":
    main()
