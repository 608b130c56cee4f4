"""How the children of multiprocessing ended: an exit status that nobody asks for is lost otherwise."""

import multiprocessing.popen_fork
import os
import signal
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Set, Tuple


@dataclass(frozen=True)
class Death:
    """A child that ended by a signal which its parent did not send, or with an exit code other than 0."""

    pid: int
    status: int
    """As Process.exitcode: -9 for SIGKILL."""

    def __str__(self) -> str:
        if self.status > 0:
            return f"worker {self.pid} exited by itself with code {self.status}"
        try:
            name = signal.Signals(-self.status).name
        except ValueError:
            name = f"signal {-self.status}"
        return f"worker {self.pid} was killed by {name}"


class DeathWatch:
    """Between start() and stop(), notes how each child of multiprocessing ended, and which of them were told to.

    Nothing that a child is started by is touched: it would stand in the child's stack.
    """

    def __init__(self) -> None:
        self._statuses: Dict[int, int] = {}
        self._signals_sent: Dict[int, Set[int]] = {}
        self._restore: List[Tuple[type, str, Any]] = []
        self._owner = os.getpid()

    def start(self) -> None:
        """Wraps how multiprocessing learns of the end of a child; stop() undoes it."""
        for popen in _popen_classes():
            self._wrap(popen, "poll", self._note_status)
            self._wrap(popen, "_send_signal", self._note_signal)

    def stop(self) -> None:
        """After it, nothing is noted."""
        for owner, name, original in reversed(self._restore):
            setattr(owner, name, original)
        self._restore.clear()

    def pids(self) -> Set[int]:
        """Those of all that have ended."""
        return set(self._statuses)

    def leave_out(self, pids: Set[int]) -> None:
        """These are killed by us."""
        for pid in pids:
            self._signals_sent.setdefault(pid, set()).add(signal.SIGKILL)

    def deaths(self) -> List[Death]:
        """In the order in which they were noticed."""
        return [Death(pid, status) for pid, status in self._statuses.items()
                if status != 0 and not self._was_told_to_end(pid, status)]

    def _was_told_to_end(self, pid: int, status: int) -> bool:
        sent = self._signals_sent.get(pid, set())
        # A child that was told to may also leave by an exit of its own.
        return bool(sent) if status > 0 else -status in sent

    def _wrap(self, owner: type, name: str, note: Callable[..., None]) -> None:
        original = vars(owner).get(name)
        if original is None:
            return  # inherited, and wrapped there

        def wrapper(popen: Any, *arguments: Any, **options: Any) -> Any:
            is_known = popen.returncode is not None
            result = original(popen, *arguments, **options)
            if not is_known and os.getpid() == self._owner:
                note(popen, *arguments)
            return result

        setattr(owner, name, wrapper)
        self._restore.append((owner, name, original))

    def _note_status(self, popen: Any, *_: Any) -> None:
        if popen.returncode is not None:
            self._statuses[popen.pid] = popen.returncode

    def _note_signal(self, popen: Any, number: int) -> None:
        self._signals_sent.setdefault(popen.pid, set()).add(number)


def _popen_classes() -> List[type]:
    classes: List[type] = [multiprocessing.popen_fork.Popen]
    try:
        from multiprocessing import popen_forkserver, popen_spawn_posix
    except ImportError:
        return classes
    return [*classes, popen_forkserver.Popen, popen_spawn_posix.Popen]
