"""The processes below a process, as /proc tells of them. Needs nothing: hang_watcher.py is started with it alone."""

import os
from typing import AbstractSet, Dict, List, Optional, Set, Tuple

Process = Tuple[int, int]
"""A pid and its start time, so that a pid that was given out again is another process."""


def process_of(pid: int) -> Optional[Process]:
    """None if there is none, or a zombie."""
    status = _status(pid)
    return None if status is None else (pid, status[1])


def descendants(root: int, without: AbstractSet[Process] = frozenset()) -> Set[Process]:
    """The living processes below `root`; without some, and what is below them."""
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
            if (child, start_times[child]) not in without:
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
