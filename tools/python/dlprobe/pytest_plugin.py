"""A pytest plugin: a test fails if its data loader leaks, hangs or dies.

It does nothing unless it is asked to:

    @pytest.mark.dlprobe                     # one test
    @pytest.mark.dlprobe(deadline=30, allow=["descriptors"])
    def test_epoch(): ...

    pytest --dlprobe                         # all tests; or in the ini file: dlprobe = true

A test that is not done by its deadline is looked at by `dlprobe attach`; the answer is in the failure. Then the
processes that the test started are ended, so that the session goes on.
"""

import contextlib
import gc
import sys
from typing import Any, ContextManager, Dict, Iterator, List, Set

import pytest

from . import holdings as held
from .deaths import DeathWatch
from .hang_watch import HangWatch
from .scopes import Scopes, leaks_since

KINDS = (*held.KINDS, "deaths", "hangs")
_DEADLINE = "300"
_SESSION = "dlprobe session"


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
    config.pluginmanager.register(_Session(config), _SESSION)


def pytest_unconfigure(config: Any) -> None:
    session = config.pluginmanager.getplugin(_SESSION)
    if session is not None:
        session.hangs.end()


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

    def __init__(self, request: Any, session: "_Session") -> None:
        self._settings = Settings(request.node)
        self._request = request
        self._scopes = session.scopes
        self._hangs = session.hangs if "hangs" not in self._settings.allow else None
        self._before = held.holdings()
        self._deaths = DeathWatch()

    def start(self) -> None:
        self._deaths.start()
        if self._hangs is not None:
            self._hangs.begin(self._request.node.nodeid, self._settings.deadline, self._before.processes)
        self.enter(in_test=True)

    def check(self) -> None:
        """Fails the test now if its loader has left something behind, or a worker has died."""
        stays = self._what_stays() if self._scopes.widest(self._request) is None else None
        problems = [*(stays.lines("the test") if stays else ()), *self.deaths()]
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

    def finish(self, has_failed: bool) -> None:
        """The last check; nothing that the test alone started is left after it. What a test that has failed leaves is
        held by its traceback, and says nothing of the loader."""
        try:
            self.enter(in_test=True)
            problems = self._last_problems(has_failed)
        finally:
            self.stop()
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)

    def deaths(self) -> List[str]:
        """In words."""
        if self._hangs is not None:
            self._hangs.look()
            self._deaths.leave_out(self._hangs.ended)
        return [] if "deaths" in self._settings.allow else [f"dlprobe: {death}" for death in self._deaths.deaths()]

    def stop(self) -> None:
        """Ends the watch; a second time it does nothing."""
        if self._hangs is not None:
            self._hangs.leave()
            self._hangs = None
        self._deaths.stop()

    def enter(self, in_test: bool) -> None:
        """See HangWatch."""
        if self._hangs is not None:
            self._hangs.enter(in_test)

    def _last_problems(self, has_failed: bool) -> List[str]:
        if self._hangs is not None:
            self._hangs.look()
            if self._hangs.hang and not self._hangs.is_told:
                return [self._hangs.hang]
            has_failed = has_failed or self._hangs.is_told
        node = self._scopes.widest(self._request)
        if node is not None:
            gc.collect()
            self._scopes.note(self._leaks(), node, self._request.node.nodeid, is_judged=not has_failed)
            return [] if has_failed else self.deaths()
        stays = self._leaks() if has_failed else self._what_stays()
        lines = [] if has_failed else [*stays.lines("the test"), *self.deaths()]
        self._deaths.leave_out({pid for pid, _ in stays.processes})
        held.end(stays.processes)
        return lines

    def _what_stays(self) -> held.Leaks:
        gc.collect()  # which may hang, too
        if self._hangs is not None:
            self._hangs.enter(in_test=True, is_timed=False)
        stays = held.what_stays(self._leaks)
        self.enter(in_test=True)
        return stays

    def _leaks(self) -> held.Leaks:
        return leaks_since(self._before, self._deaths.pids()).without(self._settings.allow)


class _Session:
    """What is kept from one test to the next."""

    def __init__(self, config: Any) -> None:
        self.watches: Dict[str, LoaderWatch] = {}
        self.failed: Set[str] = set()
        self.scopes = Scopes(self._tell)
        self.hangs = HangWatch(pytest.fail)
        self.item: Any = None
        self.is_torn_down = False
        self._config = config

    def wants_hangs(self) -> None:
        """Has the watch for hangs run."""
        with self._uncaptured():
            process = self.hangs.start()
        if process is not None:
            held.not_of_tests.add(process)

    def _tell(self, lines: List[str]) -> None:
        if self.is_torn_down:
            pytest.fail("\n".join(lines), pytrace=False)
        with self._uncaptured():  # nobody would take a failure: pytest ends early
            print("", *lines, sep="\n", file=sys.__stderr__, flush=True)

    def _uncaptured(self) -> ContextManager[None]:
        capture = self._config.pluginmanager.getplugin("capturemanager")
        return contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()


def _session_of(config: Any) -> _Session:
    session: _Session = config.pluginmanager.getplugin(_SESSION)
    return session


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
    session = _session_of(request.config)
    name = request.node.nodeid
    if "hangs" not in Settings(request.node).allow:
        session.wants_hangs()
    watch = LoaderWatch(request, session)
    session.watches[name] = watch
    try:
        watch.start()
        yield watch
        request.node.funcargs.clear()  # or what the other fixtures made lives until the test is over
        watch.finish(has_failed=name in session.failed)
    finally:
        watch.stop()
        session.failed.discard(name)
        del session.watches[name]


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    if fixturedef.scope == "function" or _is_of_pytest(fixturedef):
        yield
        return
    session = _session_of(request.config)
    session.scopes.add(fixturedef.argname, request.node)
    settings = Settings(session.item) if session.item is not None else None
    before = held.holdings() if settings is not None and settings.wanted else None
    outcome: Any = yield
    if settings is not None and before is not None:
        session.scopes.note(leaks_since(before, set()).without(settings.allow), session.scopes.widest(request) or request.node,
                            f"the set-up of the fixture {fixturedef.argname}", is_judged=outcome.excinfo is None)


def _is_of_pytest(fixturedef: Any) -> bool:
    # As tmp_path_factory, which half of all tests use, and which holds no loader. What pytest makes of setup_module() and
    # the like has the place of those.
    return not fixturedef.baseid and str(getattr(fixturedef.func, "__module__", "")).startswith("_pytest.")


def _watched(item: Any, phase: str) -> Iterator[None]:
    session = _session_of(item.config)
    session.item = item
    session.is_torn_down = phase == "teardown"
    watch = session.watches.get(item.nodeid)
    if watch is not None:
        watch.enter(in_test=True)
    outcome: Any = yield
    session.item = None
    session.is_torn_down = False
    watch = session.watches.get(item.nodeid)
    if watch is None:
        return
    watch.enter(in_test=False)
    if outcome.excinfo is not None:
        session.failed.add(item.nodeid)
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
