"""What a process and its children hold, and what of it a loader has left behind."""

import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import re
import signal
import stat
import threading
import time
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Set, Tuple

Process = Tuple[int, int]
"""A pid and its start time, so that a pid that was given out again is another process."""

SHARED_MEMORY = "/dev/shm"
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
    return Holdings(_descriptors(), _shared_files(), descendants(os.getpid()) - _helpers())


@dataclass(frozen=True)
class Leaks:
    """What is there after a test and was not before it."""

    descriptors: List[str]
    shared_files: List[str]
    processes: Set[Process]

    def __bool__(self) -> bool:
        return bool(self.descriptors or self.shared_files or self.processes)


def leaks_since(before: Holdings, made_by: Set[int], machine_is_shared: bool) -> Leaks:
    """What this process holds beyond `before`.

    `made_by` are the pids of the test's processes. A file that none of them maps, and that no living process has,
    is the test's too, unless other tests run beside it (`machine_is_shared`).
    """
    now = holdings()
    descriptors = [f"{number}: {target}" for number, target in sorted(now.descriptors.items())
                   if before.descriptors.get(number) != target]
    processes = now.processes - before.processes
    own = made_by | {os.getpid()} | {pid for pid, _ in processes}
    names = sorted(name for name, _ in now.shared_files - before.shared_files)
    return Leaks(descriptors, _of_this_test(names, own, machine_is_shared), processes)


def end(processes: Set[Process]) -> None:
    """Kills processes, if they are still those that were seen, and waits until they are gone.

    PyTorch raises an error at the end of a worker, wherever the main thread is then; it does not of those that it
    finds reaped.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGCHLD, lambda *_: None) if is_main else None
    try:
        for process in processes & descendants(os.getpid()):
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


def _is_any_left(processes: Set[Process]) -> bool:
    # A child of multiprocessing is gone when it is reaped: while other threads of it are on their way, it looks like
    # a zombie and is none yet.
    unreaped = {child.pid for child in multiprocessing.active_children()}
    return bool(processes & descendants(os.getpid())) or any(pid in unreaped for pid, _ in processes)


def descendants(root: int) -> Set[Process]:
    """The living processes below `root`."""
    children: Dict[int, List[int]] = {}
    start_times: Dict[int, int] = {}
    for entry in os.listdir("/proc"):
        status = _status(int(entry)) if entry.isdigit() else None
        if status is not None:
            children.setdefault(status[0], []).append(int(entry))
            start_times[int(entry)] = status[1]
    found: Set[Process] = set()
    todo = [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            found.add((child, start_times[child]))
            todo.append(child)
    return found


def command_of(pid: int) -> str:
    """The command line of a process, or what can be said instead."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read().replace(b"\0", b" ").decode("utf-8", "backslashreplace").strip()
    except OSError:
        return "ended"
    return text[:120] or "?"


def _status(pid: int) -> Optional[Tuple[int, int]]:
    # The parent and the start time; None for a zombie. The name in parentheses may hold anything.
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else (int(fields[1]), int(fields[19]))


def _helpers() -> Set[Process]:
    tracker = getattr(multiprocessing.resource_tracker, "_resource_tracker", None)
    server = getattr(multiprocessing.forkserver, "_forkserver", None)
    found: Set[Process] = set()
    for pid in (getattr(tracker, "_pid", None), getattr(server, "_forkserver_pid", None)):
        status = _status(pid) if isinstance(pid, int) else None
        if isinstance(pid, int) and status is not None:
            found.add((pid, status[1]))
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


def _of_this_test(names: List[str], own: Set[int], machine_is_shared: bool) -> List[str]:
    if not names:
        return []
    holders = _holders({f"{SHARED_MEMORY}/{name}" for name in names})
    found = []
    for name in names:
        held_by = holders.get(f"{SHARED_MEMORY}/{name}", set())
        maker = _MADE_BY.search(name)
        if held_by & own or (not held_by and _is_ours(maker and int(maker.group(1)), own, machine_is_shared)):
            found.append(name)
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
