"""A pytest plugin: a test fails if its data loader leaks, hangs or dies.

It does nothing unless it is asked to:

    @pytest.mark.dlprobe                     # one test
    @pytest.mark.dlprobe(deadline=30, allow=["descriptors"])
    def test_epoch(): ...

    pytest --dlprobe                         # all tests; or in the ini file: dlprobe = true

A test that is not done by its deadline is looked at by `dlprobe attach`; the answer is in the failure. Then the
processes that the test started are ended, so that the session goes on.
"""

import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

import pytest

from . import holdings as held
from .deaths import DeathWatch
from .program import DlprobeError, find_program

KINDS = ("descriptors", "shared-memory", "workers", "deaths", "hangs")
_DEADLINE = "300"
# The kernel, the shared memory manager of PyTorch and daemons take a moment to clean up.
_SETTLE_SECONDS = 5.0
# How long a test may take to end, once its workers are gone and it was told to.
_GRACE_SECONDS = 20.0
# One that nobody else uses; the handler raises in the main thread, whatever that waits for.
_WAKE: int = signal.SIGRTMAX - 3


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("dlprobe", "data loaders that leak, hang or die")
    group.addoption("--dlprobe", action="store_true", default=None, help="watch the data loaders of all tests")
    group.addoption("--dlprobe-deadline", metavar="SECONDS", type=float, default=None,
                    help="a test hangs that takes longer than this (300)")
    parser.addini("dlprobe", "watch the data loaders of all tests", type="bool", default=False)
    parser.addini("dlprobe_deadline", "a test hangs that takes longer than this many seconds", default=_DEADLINE)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers", "dlprobe(deadline=SECONDS, allow=[KINDS]): fail if the test's data loader leaks, hangs or dies; "
        f"kinds: {', '.join(KINDS)}")


class Settings:
    """What is asked of one test; UsageError if the marker says what there is not."""

    def __init__(self, node: Any) -> None:
        config = node.config
        marker = node.get_closest_marker("dlprobe")
        asked = dict(marker.kwargs) if marker else {}
        self.wanted = bool(marker or config.getoption("dlprobe") or config.getini("dlprobe"))
        deadline = asked.pop("deadline", None) or config.getoption("dlprobe_deadline") or config.getini("dlprobe_deadline")
        allowed = asked.pop("allow", ())
        self.allow: Set[str] = {allowed} if isinstance(allowed, str) else set(allowed)
        unknown = [*asked, *(self.allow - set(KINDS)), *(marker.args if marker else ())]
        if unknown:
            raise pytest.UsageError(f"{node.nodeid}: the marker dlprobe knows deadline=SECONDS and allow=[{', '.join(KINDS)}], "
                                    f"not {', '.join(map(str, unknown))}")
        try:
            self.deadline = float(deadline)
        except ValueError:
            raise pytest.UsageError(f"dlprobe_deadline: {deadline} is no number of seconds") from None
        if config.getoption("usepdb", False):
            self.allow.add("hangs")  # a person is at the keyboard


class LoaderWatch:
    """Watches the loader of one test. The fixture `dlprobe_watch` is one."""

    def __init__(self, settings: Settings, write: Callable[[str], None]) -> None:
        self.hang: Optional[str] = None
        self._settings = settings
        self._write = write
        self._before = held.holdings()
        self._deaths = DeathWatch()
        self._finished = threading.Event()
        self._woken = threading.Event()
        self._left = threading.Event()
        self._may_raise = False
        self._looking = threading.Lock()  # while dlprobe runs, it is one of this process's children
        self._phase = (0, time.monotonic())
        self._old_handler: Any = None
        self._thread = threading.Thread(target=self._wait_for_deadline, name="dlprobe deadline", daemon=True)

    def start(self) -> None:
        self._deaths.start()
        if "hangs" in self._settings.allow:
            return
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(_WAKE, self._raise)
        self.enter(in_test=True)
        self._thread.start()

    def check(self) -> None:
        """Fails the test now if its loader has left something behind, or a worker has died."""
        problems = self._problems()
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

    def finish(self, has_failed: bool) -> None:
        """The last check; nothing that the test started is left after it. What a test that has failed leaves is
        held by its traceback, and says nothing of the loader."""
        try:
            self.enter(in_test=True)
            unsaid = self.hang is not None and not self._woken.is_set()
            problems = [self.hang or ""] if unsaid else [] if has_failed else self._problems()
            self.end_workers()
        finally:
            self.stop()
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

    def end_workers(self) -> None:
        """Ends every process that the test started."""
        with self._looking:
            left = held.holdings().processes - self._before.processes
            self._deaths.leave_out({pid for pid, _ in left})
            held.end(left)

    def deaths(self) -> List[str]:
        """In words."""
        return [] if "deaths" in self._settings.allow else [f"dlprobe: {death}" for death in self._deaths.deaths()]

    def stop(self) -> None:
        """Ends the watch; a second time it does nothing."""
        self._finished.set()
        self._left.set()
        self._may_raise = False
        self._deaths.stop()
        if self._thread.is_alive():
            self._thread.join()
        if self._old_handler is not None:
            signal.signal(_WAKE, self._old_handler)
            self._old_handler = None

    def enter(self, in_test: bool) -> None:
        """The test's own code (its fixtures', too) begins or ends: there, and not in pytest around it, a failure can
        be raised. The deadline begins anew."""
        self._phase = (self._phase[0] + 1, time.monotonic())
        self._may_raise = in_test
        if self.hang:
            self._left.set()

    def _problems(self) -> List[str]:
        gc.collect()  # which may hang, too
        self._phase = (self._phase[0] + 1, math.inf)
        end = time.monotonic() + _SETTLE_SECONDS
        with self._looking:
            while True:
                leaks = held.leaks_since(self._before, self._deaths.pids(), "PYTEST_XDIST_WORKER" in os.environ)
                problems = self._leak_lines(leaks)
                if not problems or time.monotonic() > end:
                    break
                time.sleep(0.05)
                gc.collect()
        self.enter(in_test=True)
        return [*problems, *self.deaths()]

    def _leak_lines(self, leaks: held.Leaks) -> List[str]:
        allow = self._settings.allow
        lines = []
        if leaks.processes and "workers" not in allow:
            lines.append(f"dlprobe: {len(leaks.processes)} processes that the test started are left (they are ended now)")
            lines += [f"  {pid}: {held.command_of(pid)}" for pid, _ in sorted(leaks.processes)]
            return lines  # its pipes and its shared memory are a consequence
        if leaks.shared_files and "shared-memory" not in allow:
            lines.append(f"dlprobe: {len(leaks.shared_files)} files are left in {held.SHARED_MEMORY}")
            lines += _some(leaks.shared_files)
        if leaks.descriptors and "descriptors" not in allow:
            tensors = sum(held.SHARED_MEMORY in target for target in leaks.descriptors)
            kept = f", {tensors} of them shared memory that is kept (dlprobe explain DLP0203)" if tensors else ""
            lines.append(f"dlprobe: {len(leaks.descriptors)} file descriptors are left open{kept}")
            lines += _some(leaks.descriptors)
        return lines

    def _wait_for_deadline(self) -> None:
        while not self._finished.is_set():
            phase, since = self._phase
            remaining = max(0.0, since + self._settings.deadline - time.monotonic())
            if self._finished.wait(min(remaining, 1.0)):
                return
            if remaining > 1.0 or self._phase[0] != phase:
                continue
            with self._looking:
                if self._phase[0] != phase:
                    continue
                seen = _look()
            if self._phase[0] == phase and not self._finished.is_set():
                self.hang = f"dlprobe: the test was not done after {self._settings.deadline:g} s\n{seen}"
                self._end_the_hang()
                return

    def _end_the_hang(self) -> None:
        if self._old_handler is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, _WAKE)
        # First the failure, then the end of the workers: their end raises failures of its own. Only what the test
        # cannot leave by itself, since it waits for them, is done here.
        if self._woken.wait(1) and self._left.wait(2):
            return
        self.end_workers()
        if not self._left.wait(_GRACE_SECONDS):
            self._write(f"{self.hang}\nIt waits outside of Python, and cannot be ended: pytest ends here.\n")
            os._exit(1)

    def _raise(self, _number: int = 0, _frame: Optional[FrameType] = None) -> None:
        if self._may_raise and self.hang and not self._woken.is_set():
            self._woken.set()
            pytest.fail(self.hang)


def _some(lines: List[str]) -> List[str]:
    shown = [f"  {line}" for line in lines[:10]]
    return shown if len(lines) <= 10 else [*shown, f"  and {len(lines) - 10} more"]


def _look() -> str:
    # What dlprobe says of this process and its tree, as a person reads it.
    try:
        argv = [find_program(), "attach", str(os.getpid())]
        with _traceable():
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=60, check=False)
    except (OSError, DlprobeError, subprocess.TimeoutExpired) as error:
        return f"and why, cannot be said: {error}"
    return done.stdout.decode("utf-8", "replace")


class _traceable:
    """Yama (ptrace_scope 1) lets a process be looked at by its parents alone, and dlprobe is a child of this one."""

    def __enter__(self) -> None:
        self._set(-1)  # PR_SET_PTRACER_ANY

    def __exit__(self, *_: object) -> None:
        self._set(0)

    @staticmethod
    def _set(tracer: int) -> None:
        import ctypes
        pr_set_ptracer = 0x59616D61
        ctypes.CDLL(None).prctl(pr_set_ptracer, ctypes.c_ulong(tracer & (2**64 - 1)), 0, 0, 0)


_WATCHES: Dict[str, LoaderWatch] = {}
_FAILED: Set[str] = set()


@pytest.fixture(autouse=True)
def _dlprobe_marked(request: Any) -> Iterator[None]:
    # Autouse fixtures of a test come after those of its module and before all others of its own: what they make is
    # the test's, and what they leave is left when this one ends.
    settings = Settings(request.node)
    if settings.wanted:
        request.getfixturevalue("dlprobe_watch")
    yield


@pytest.fixture
def dlprobe_watch(request: Any) -> Iterator[LoaderWatch]:
    """Fails the test if its data loader leaks, hangs or dies. `dlprobe_watch.check()` looks in the middle of a test."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def write(text: str) -> None:
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        if sys.__stderr__ is not None:
            print(f"\n{request.node.nodeid}\n{text}", file=sys.__stderr__, flush=True)

    watch = LoaderWatch(Settings(request.node), write)
    _WATCHES[request.node.nodeid] = watch
    watch.start()
    try:
        yield watch
        request.node.funcargs.clear()  # or what the other fixtures made lives until the test is over
        watch.finish(has_failed=request.node.nodeid in _FAILED)
    finally:
        watch.stop()
        _FAILED.discard(request.node.nodeid)
        del _WATCHES[request.node.nodeid]


def _watched(item: Any, phase: str) -> Iterator[None]:
    watch = _WATCHES.get(item.nodeid)
    if watch is not None:
        watch.enter(in_test=True)
    outcome: Any = yield
    watch = _WATCHES.get(item.nodeid)
    if watch is None:
        return
    watch.enter(in_test=False)
    if outcome.excinfo is not None:
        _FAILED.add(item.nodeid)
        deaths = watch.deaths()
        if deaths:
            item.add_report_section(phase, "dlprobe", "\n".join(deaths))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: Any) -> Iterator[None]:
    yield from _watched(item, "setup")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    yield from _watched(item, "call")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: Any) -> Iterator[None]:
    yield from _watched(item, "teardown")
