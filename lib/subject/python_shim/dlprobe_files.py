"""Files that were opened before a process was forked: does it read them, and do others move their position meanwhile?

A process of multiprocessing is looked at when it gets something by a queue, and before it sends something.
"""
import os
import sys
from _thread import get_ident

from dlprobe_random import Looked, attributes_of, is_users_module, parts_of, things_in, watch_sends
from dlprobe_start import load, tell
from dlprobe_trace import POOLS, place_of_code

_MOST_LOOKS = 1000  # of one process; each takes three microseconds
_MOVES_THAT_PROVE = 3  # of a file's position; the parent may look at it once
_FUNCTION, _MODULE = type(load), type(os)
_LOCKS_A_FILE = {"flock", "lockf"}  # of the module fcntl
_HAVE_LOCKS = ("multiprocessing", "filelock", "fasteners", "portalocker")


def open_kinds():
    """Whether a regular file is open, and the numbers of all sockets, beside the standard streams."""
    has_files, sockets = False, []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            kind = os.fstat(number).st_mode & 0o170000
        except OSError:
            continue  # that of the listing
        if number > 2 and kind == 0o140000:
            sockets.append(number)
        has_files = has_files or (number > 2 and kind == 0o100000)
    return has_files, sockets


def _names_in(code):
    yield from code.co_names
    for each in code.co_consts:
        if type(each) is type(code):
            yield from _names_in(each)


def has_lock(things):
    """Whether one is among them that keeps other processes out, or code that locks a file."""
    for _path, thing in things:
        kind = type(thing)
        if kind is _FUNCTION and not _LOCKS_A_FILE.isdisjoint(_names_in(thing.__code__)):
            return True
        if kind.__module__.partition(".")[0] in _HAVE_LOCKS and (hasattr(kind, "acquire") or "acquire" in attributes_of(thing)):
            return True
    return False


def files_of(things):
    """The numbers of the files that it reads."""
    numbers = set()
    for _path, thing in things:
        try:
            if type(thing).__module__ == "_io" and thing.readable() and thing.seekable():
                numbers.add(thing.fileno())
        except (AttributeError, OSError, ValueError):
            pass  # it is closed, or in memory
    return {number for number in numbers if number > 2 and not load("dlprobe_limits").appends(number)}


def unlocked_files_of(things, fields):
    """Of those that it reads under a lock it is told at once: their position is as it should be."""
    numbers = files_of(things)
    if numbers and has_lock(things):
        for number in numbers:
            _tell_file(number, wanted="lock", **fields)
        return ()
    return numbers


def _tell_file(number, **fields):
    path = load("dlprobe_limits").as_of_parent(number)
    if path is not None and path.startswith("/"):
        tell("position-moved", shared=path, **fields)


class _Reads:
    """What this thread has read, of whatever."""

    def __init__(self):
        self._bytes = None

    def went_on(self, known=0):
        """Since it was asked last, beside `known` bytes; True: maybe."""
        try:
            file = os.open("/proc/thread-self/io", os.O_RDONLY | os.O_CLOEXEC)
            try:
                text = os.read(file, 400)
            finally:
                os.close(file)
        except OSError:
            return True
        before, now = self._bytes, int(text.split(None, 2)[1])
        self._bytes = now + len(text)
        return before is None or before + known != now


class _Position:
    """That of one file: how often this worker moved it, and how often others did while it read nothing."""

    def __init__(self, number):
        self._number, self._last, self.own, self.others = number, None, 0, 0

    def has_moved(self):
        before, self._last = self._last, os.lseek(self._number, 0, os.SEEK_CUR)
        return before not in (None, self._last)

    def tell(self, fields):
        _tell_file(self._number, count=self.others, **fields)


class Positions:
    """Of files that were opened before the fork, maybe."""

    def __init__(self, fields, numbers):
        self._fields, self._left, self._looks = fields, [_Position(number) for number in numbers], 0
        self.reads = _Reads()

    def look(self, is_maybe_own):
        """`is_maybe_own`: whether this process may have moved what has moved since the last look, by reading."""
        self._looks += 1
        moved = [each for each in list(self._left) if self._has_moved(each)]
        is_own = is_maybe_own(moved)
        for each in moved:
            if is_own:
                each.own += 1
            else:
                each.others += 1
            if min(each.own, each.others) >= _MOVES_THAT_PROVE:
                self._left.remove(each)
                each.tell(self._fields)
        return bool(self._left) and self._looks < _MOST_LOOKS

    def _has_moved(self, position):
        try:
            return position.has_moved()
        except OSError:
            self._left.remove(position)  # it is closed
            return False


# ---- in a process of multiprocessing

_QUEUES = ("multiprocessing.queues", "multiprocessing.connection")
_HEADER = 4  # bytes, of a message


def _parts_used(path, thing):
    """Of a function what its code names, of its own globals and of the program's modules: the parent may read what else there is."""
    if type(thing).__module__ in _QUEUES:
        return
    if type(thing) is _FUNCTION and is_users_module(sys.modules.get(thing.__module__)):
        names = set(_names_in(thing.__code__))
        known = [thing.__globals__] + [vars(each) for each in thing.__globals__.values() if is_users_module(each)]
        yield from ((name, each[name]) for each in known for name in names.intersection(each))
    yield from (part for part in parts_of(path, thing) if type(part[1]) is not _MODULE)


class _Turns:
    """From what this process sends to what it gets next it reads no more than that."""

    def __init__(self, target, things):
        """`things`: empty: those of the first task, of a pool's worker."""
        self._pid, self._thread, self._fields, self._positions = os.getpid(), get_ident(), {}, None
        self._is_over = bool(things) and not self._has_files(target, things)

    def _has_files(self, target, things):
        used = list(things_in(*(("", each) for each in things), parts_of=_parts_used))
        function = next((each for _path, each in used if type(each) is _FUNCTION and place_of_code(each.__code__, "")), target)
        code = getattr(function, "__code__", None)
        self._fields.update(place_of_code(code, getattr(function, "__qualname__", "")))
        numbers = unlocked_files_of(used, self._fields)
        if numbers:
            self._positions = Positions(self._fields, numbers)
        return bool(numbers)

    def _is_here(self):
        return os.getpid() == self._pid and get_ident() == self._thread

    def _look(self, known):
        self._is_over = self._is_over or not self._positions.look(lambda _moved: self._positions.reads.went_on(known))

    def goes_on(self, _pipe, _size, worker):
        """It sends something."""
        if self._is_here() and not self._is_over:
            if self._positions is None and worker is not None:
                self._is_over = not self._has_files(None, _task_at(worker))
            if self._positions is not None:
                self._look(0)
        return not self._is_over

    def got(self, frame):
        """`frame`: of the queue's method, where it has got a message."""
        if self._is_here() and not self._is_over and self._positions is not None:
            self._fields.setdefault("loader", os.fstat(frame.f_locals["self"]._reader.fileno()).st_ino)
            self._look(_HEADER + len(frame.f_locals["res"]))
        return not self._is_over


def _task_at(frame):
    """The function of a task and what it is called with, where a worker sends the result."""
    here = (frame.f_back if frame.f_code.co_name == "_sendback_result" else frame).f_locals
    item = here.get("call_item")
    return (here["func"], here["args"], here["kwds"]) if item is None else (item.fn, item.args, item.kwargs)


def watch_process(process):
    """`process`: this one, which begins."""
    target, own = attributes_of(process).get("_target"), sys.modules.get("torch.utils.data._utils.worker")
    if target is getattr(own, "_worker_loop", process) or not open_kinds()[0]:
        return
    is_of_pool = type(target) is _FUNCTION and target.__module__.endswith(POOLS)
    turns = _Turns(target, () if is_of_pool else (target, process))
    if not turns._is_over:
        watch_sends(turns)
        Looked(sys.modules["multiprocessing.reduction"].ForkingPickler, "loads",
               lambda _none, frame: turns.got(frame) if frame.f_code.co_name == "get" else True)
