"""What lives on after a test since a fixture of a wider scope may hold it: told when that scope ends."""

import functools
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import holdings as held


def leaks_since(before: held.Holdings, made_by: Set[int]) -> held.Leaks:
    """As in holdings; pytest-xdist runs other tests beside this one."""
    return held.leaks_since(before, made_by, "PYTEST_XDIST_WORKER" in os.environ)


@dataclass(frozen=True)
class _Pending:
    leaks: held.Leaks
    node: Any
    """When this is torn down, it must be gone."""
    origin: str
    is_judged: bool
    """False: what a test that failed has left, which its traceback may hold."""


class Scopes:
    """The fixtures of wider scopes than a test's that are alive, and what appeared while they were used.

    What a loader of a module starts in a test, as its persistent workers, is not the test's; nobody can tell it from
    what the test itself has left until the module's fixtures are done.
    """

    def __init__(self, tell: Callable[[List[str]], None]) -> None:
        self._tell = tell
        self._nodes: Dict[str, Set[Any]] = {}
        self._known: Set[Any] = set()
        self._pending: List[_Pending] = []

    def add(self, fixture: str, node: Any) -> None:
        """A fixture of that name is about to be set up, and lives as long as `node`."""
        if node not in self._known:
            self._known.add(node)
            node.addfinalizer(functools.partial(self._end, node))  # before those of its fixtures, so it runs after them
        self._nodes.setdefault(fixture, set()).add(node)

    def widest(self, request: Any) -> Optional[Any]:
        """The node that ends last of those whose fixtures the test of this request uses; None if it uses only its own."""
        nodes = [node for name in request.fixturenames for node in self._nodes.get(name, ())]
        return min(nodes, key=lambda node: len(node.listchain()), default=None)

    def note(self, leaks: held.Leaks, node: Any, origin: str, is_judged: bool) -> None:
        """What is there and must be gone when `node` ends."""
        for pending in self._pending:
            leaks = leaks.minus(pending.leaks)
        if leaks:
            self._pending.append(_Pending(leaks, node, origin, is_judged))

    def _end(self, node: Any) -> None:
        self._known.discard(node)
        for nodes in self._nodes.values():
            nodes.discard(node)
        ended = [pending for pending in self._pending if pending.node is node]
        self._pending = [pending for pending in self._pending if pending.node is not node]
        left = held.what_stays(lambda: _still_there(ended))
        for pending in ended:
            held.end(pending.leaks.processes)
        if left:
            self._tell([line for pending, leaks in left for line in _lines(pending, leaks)])


def _still_there(ended: List[_Pending]) -> List[Tuple[_Pending, held.Leaks]]:
    judged = [pending for pending in ended if pending.is_judged]
    now = held.holdings() if judged else None
    found = [(pending, pending.leaks.still_in(now)) for pending in judged if now is not None]
    return [(pending, leaks) for pending, leaks in found if leaks]


def _lines(pending: _Pending, leaks: held.Leaks) -> List[str]:
    scope = pending.node.nodeid or "the session"
    return [f"dlprobe: left at the end of {scope}, first seen after {pending.origin}", *leaks.lines("it")]
