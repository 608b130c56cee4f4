"""What a process and its children hold, and what of it a loader has left behind."""

import gc
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import re
import signal
import stat
import sys
import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple, TypeVar

from .processes import Process, command_of, descendants, process_of

SHARED_MEMORY = "/dev/shm"
Left = TypeVar("Left")
KINDS = ("descriptors", "shared-memory", "workers")
not_of_tests: Set[Process] = set()
"""Processes below this one that no test started."""
# The kernel, the shared memory manager of PyTorch and daemons take a moment to clean up.
_SETTLE_SECONDS = 5.0
# A process that does not go within this waits in the kernel.
_KILLED_SECONDS = 5.0
# A name like torch_4711_1234_0: the pid is that of the process that made the file.
_MADE_BY = re.compile(r"_(\d+)_\d+(?:_\d+)?$")


@dataclass(frozen=True)
class Holdings:
    """What a process held at one moment."""

    descriptors: Dict[int, str]
    """What each descriptor refers to, as /proc/self/fd says it."""
    shared_files: Set[Tuple[str, int]]
    """Names and inodes of this user's files in /dev/shm."""
    processes: Set[Process]
    """Its descendants; without zombies and without multiprocessing's helpers, which live on by design."""


def holdings() -> Holdings:
    """Those of this process, now."""
    multiprocessing.active_children()  # reaps those that have ended
    return Holdings(_descriptors(), _shared_files(), _descendants() - _helpers())


@dataclass(frozen=True)
class Leaks:
    """What is there after a test and was not before it."""

    descriptors: Dict[int, str]
    shared_files: Set[Tuple[str, int]]
    processes: Set[Process]

    def __bool__(self) -> bool:
        return bool(self.descriptors or self.shared_files or self.processes)

    def still_in(self, now: Holdings) -> "Leaks":
        """What of it is there."""
        return Leaks(dict(self.descriptors.items() & now.descriptors.items()), self.shared_files & now.shared_files,
                     self.processes & now.processes)

    def without(self, kinds: Set[str]) -> "Leaks":
        """It, less some of KINDS."""
        return Leaks({} if "descriptors" in kinds else self.descriptors,
                     set() if "shared-memory" in kinds else self.shared_files,
                     set() if "workers" in kinds else self.processes)

    def minus(self, other: "Leaks") -> "Leaks":
        """It, less what is another's."""
        return Leaks(dict(self.descriptors.items() - other.descriptors.items()), self.shared_files - other.shared_files,
                     self.processes - other.processes)

    def lines(self, whose: str) -> List[str]:
        """In words."""
        if self.processes:
            return [f"dlprobe: {len(self.processes)} processes that {whose} started are left (they are ended now)",
                    *_some([f"{pid}: {command_of(pid)}" for pid, _ in sorted(self.processes)])]
        lines = []  # not where processes are: its pipes and its shared memory are a consequence
        if self.shared_files:
            lines.append(f"dlprobe: {len(self.shared_files)} files are left in {SHARED_MEMORY}")
            lines += _some(sorted(name for name, _ in self.shared_files))
        if self.descriptors:
            tensors = sum(SHARED_MEMORY in target for target in self.descriptors.values())
            kept = f", {tensors} of them shared memory that is kept (dlprobe explain DLP0203)" if tensors else ""
            lines.append(f"dlprobe: {len(self.descriptors)} file descriptors are left open{kept}")
            lines += _some([f"{number}: {target}" for number, target in sorted(self.descriptors.items())])
        return lines


def leaks_since(before: Holdings, made_by: Set[int], machine_is_shared: bool) -> Leaks:
    """What this process holds beyond `before`.

    `made_by` are the pids of the test's processes. A file that none of them maps, and that no living process has,
    is the test's too, unless other tests run beside it (`machine_is_shared`).
    """
    now = holdings()
    descriptors = dict(now.descriptors.items() - before.descriptors.items())
    processes = now.processes - before.processes
    own = made_by | {os.getpid()} | {pid for pid, _ in processes}
    return Leaks(descriptors, _of_this_test(now.shared_files - before.shared_files, own, machine_is_shared), processes)


def what_stays(look: Callable[[], Left]) -> Left:
    """What is there for longer than it takes to clean up; a falsy answer is nothing."""
    patience = time.monotonic() + _SETTLE_SECONDS
    while True:
        gc.collect()
        left = look()
        if not left or time.monotonic() > patience:
            return left
        time.sleep(0.05)


def end(processes: Set[Process]) -> None:
    """Kills processes, if they are still those that were seen, and waits until they are gone.

    PyTorch raises an error at the end of a worker, wherever the main thread is then; it does not of those that it
    finds reaped.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGCHLD, lambda *_: None) if is_main else None
    try:
        _end_pools({pid for pid, _ in processes})
        for process in processes & _descendants():
            try:
                os.kill(process[0], signal.SIGKILL)
            except ProcessLookupError:
                continue
        end_of_patience = time.monotonic() + _KILLED_SECONDS
        while _is_any_left(processes) and time.monotonic() < end_of_patience:
            time.sleep(0.01)
    finally:
        if is_main:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL if handler is None else handler)


def _end_pools(pids: Set[int]) -> None:
    # A worker of a Pool that is killed may hold the lock of its queue, for which the pool's own end then waits, at
    # the latest when Python ends.
    module = sys.modules.get("multiprocessing.pool")
    pools = [each for each in gc.get_objects() if module is not None and issubclass(type(each), module.Pool)]
    for pool in pools:
        if any(worker.pid in pids for worker in getattr(pool, "_pool", None) or ()):
            thread = threading.Thread(target=pool.terminate, daemon=True)
            thread.start()
            thread.join(_KILLED_SECONDS)


def _descendants() -> Set[Process]:
    return descendants(os.getpid(), not_of_tests)


def _some(lines: List[str]) -> List[str]:
    shown = [f"  {line}" for line in lines[:10]]
    return shown if len(lines) <= 10 else [*shown, f"  and {len(lines) - 10} more"]


def _is_any_left(processes: Set[Process]) -> bool:
    # A child of multiprocessing is gone when it is reaped: while other threads of it are on their way, it looks like
    # a zombie and is none yet.
    unreaped = {child.pid for child in multiprocessing.active_children()}
    return bool(processes & _descendants()) or any(pid in unreaped for pid, _ in processes)


def _helpers() -> Set[Process]:
    tracker = getattr(multiprocessing.resource_tracker, "_resource_tracker", None)
    server = getattr(multiprocessing.forkserver, "_forkserver", None)
    found: Set[Process] = set()
    for pid in (getattr(tracker, "_pid", None), getattr(server, "_forkserver_pid", None)):
        process = process_of(pid) if isinstance(pid, int) else None
        if process is not None:
            found.add(process)
    return found


def _helper_descriptors() -> Set[Optional[int]]:
    tracker = getattr(multiprocessing.resource_tracker, "_resource_tracker", None)
    server = getattr(multiprocessing.forkserver, "_forkserver", None)
    return {getattr(tracker, "_fd", None), getattr(server, "_forkserver_alive_fd", None)}


def _descriptors() -> Dict[int, str]:
    found = {}
    helpers = _helper_descriptors()
    for entry in os.listdir("/proc/self/fd"):
        number = int(entry)
        try:
            # Devices are opened once, by libraries: /dev/urandom, a GPU.
            if number in helpers or stat.S_ISCHR(os.fstat(number).st_mode):
                continue
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue  # that of listdir itself
    return found


def _shared_files() -> Set[Tuple[str, int]]:
    found: Set[Tuple[str, int]] = set()
    try:
        entries = list(os.scandir(SHARED_MEMORY))
    except OSError:
        return found
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode):
            found.add((entry.name, status.st_ino))
    return found


def _of_this_test(files: Set[Tuple[str, int]], own: Set[int], machine_is_shared: bool) -> Set[Tuple[str, int]]:
    if not files:
        return set()
    holders = _holders({f"{SHARED_MEMORY}/{name}" for name, _ in files})
    found = set()
    for name, inode in files:
        held_by = holders.get(f"{SHARED_MEMORY}/{name}", set())
        maker = _MADE_BY.search(name)
        if held_by & own or (not held_by and _is_ours(maker and int(maker.group(1)), own, machine_is_shared)):
            found.add((name, inode))
    return found


def _is_ours(maker: Optional[int], own: Set[int], machine_is_shared: bool) -> bool:
    return maker in own if machine_is_shared else True


def _holders(paths: Set[str]) -> Dict[str, Set[int]]:
    # Which processes map or have open which of the files.
    found: Dict[str, Set[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        for path in _held(entry):
            if path in paths:
                found.setdefault(path, set()).add(int(entry))
    return found


def _held(pid: str) -> Iterator[str]:
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                if SHARED_MEMORY in line:
                    yield line.rstrip("\n").split(None, 5)[-1]
        for number in os.listdir(f"/proc/{pid}/fd"):
            yield os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return
