"""What a process of multiprocessing writes: the same file as others, each to read its own again; what is still in the buffer of a
file object when it ends by os._exit, which flushes none (see dlprobe_hooks.py, which loads this); and what a DataLoader's worker
changes of the data set's own memory where it is asked for a sample.
"""
import gc
import os
import sys
import time
from _thread import get_ident
from fcntl import F_GETFL, fcntl
from stat import S_ISREG
from weakref import ref

from dlprobe_hooks import Noticed
from dlprobe_random import is_users_module, things_in, watch_sends
from dlprobe_start import HAS_AUDIT, load, now, pass_on, tell
from dlprobe_trace import POOLS, place_of_code, users_line

_MOST_FILES, _MOST_READ = 16, 4000  # that it wrote last; that it read
_MOST_CYCLES, _STEPS = 48, (3, 12, 48)
_TEMPORARY = tuple(each + "/" for each in (os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp", "/dev/shm"))
_MOST_LOOKS, _WRITES_THAT_PROVE, _HEADER = 64, 2, 4  # of turns; bytes, of a message
_SLACK = .02  # seconds by which the kernel's time of a file is behind
_ENDS_AT_ONCE = ("_launch", "_serve_one")  # the functions of multiprocessing that call os._exit after a child's work


def _words(command):
    command = [command] if type(command) is str else command if type(command) in (list, tuple) else ()
    return [each.strip("<>'\"") for each in " ".join(part for part in command if type(part) is str).split()]


class _File:
    """That is written, and when; and each time when it was read after that."""

    def __init__(self, place):
        self.place, self.at, self.wrote_at, self.cycles, self.is_own = place, None, None, [], False

    def begin(self, is_own):
        self.at, self.wrote_at, self.is_own = now(), time.time(), is_own

    def end(self, path):
        """It is about to be read."""
        at, self.at = self.at, None
        status = os.stat(path)
        if at is None or len(self.cycles) == _MOST_CYCLES or not S_ISREG(status.st_mode) \
                or status.st_mtime < self.wrote_at - _SLACK:
            return
        self.cycles.append("%d %d" % (at, now()))
        if len(self.cycles) in _STEPS:
            path = os.path.abspath(path)
            tell("file-rewritten", path=path, loader=os.stat(os.path.dirname(path)).st_ino, digests=self.cycles, **self.place)


class _Files:
    """Those that this process opens to write them anew, or names to a command, the last ones last."""

    def __init__(self):
        self._written, self._read = {}, set()

    def __call__(self, event, arguments):
        if event not in ("open", "subprocess.Popen"):
            return
        try:
            if event == "open":
                path, _mode, flags = arguments
                if type(path) is str:
                    self._open(path, flags, sys._getframe(1))
            else:
                for path in _words(arguments[1]):
                    if path.startswith(_TEMPORARY):
                        self._name(path, sys._getframe(1))
        except Exception as error:
            pass_on(error)

    def _open(self, path, flags, frame):
        if flags & os.O_TRUNC:
            self._begin(path, True, frame)
        elif flags & os.O_ACCMODE == os.O_RDONLY and not path.startswith("/proc/"):
            known = self._written.get(path)
            if known is not None and known.at is not None:
                known.end(path)
            elif known is None and len(self._read) < _MOST_READ:
                self._read.add(path)

    def _name(self, path, frame):
        known = self._written.get(path)
        if known is not None and known.at is not None and known.is_own:
            known.end(path)  # by the command
        else:
            self._begin(path, False, frame)

    def _begin(self, path, is_own, frame):
        known = self._written.pop(path, None)
        if known is None and (path in self._read or len(self._read) == _MOST_READ):
            return  # it is no file for one turn, maybe
        self._written[path] = known = known or _File(users_line(frame))
        known.begin(is_own)
        if len(self._written) > _MOST_FILES:
            del self._written[next(iter(self._written))]


# ---- buffers


def _writes_file(number):
    """Whether it is a regular file that still has a name, open to be written."""
    try:
        status = os.fstat(number)
        return number > 2 and S_ISREG(status.st_mode) and status.st_nlink > 0 and fcntl(number, F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False  # that of the listing


def _length_of_text(file):
    """In CPython it has what is written until it has enough of it, as text, bytes or a list of them."""
    kept = [each for each in gc.get_referents(file) if each is not file.encoding and each is not file.errors]
    parts = [part for each in kept for part in (each if type(each) is list else [each])]
    return sum(len(part) for part in parts if type(part) in (str, bytes))


def _length(file):
    """How much of what was written to it is not flushed."""
    buffer, kind = getattr(file, "buffer", file), type(file).__name__
    text = _length_of_text(file) if kind == "TextIOWrapper" and file.writable() else 0
    if type(buffer).__name__ != "BufferedWriter":
        return text
    position = buffer.raw.tell()  # others may move it
    length = buffer.tell() - position
    return text + (length if buffer.raw.tell() == position else 0)


def _kept(process):
    """The program's file objects that have something to be flushed, and how much. multiprocessing flushes the standard streams."""
    found = {}
    if any(map(_writes_file, map(int, os.listdir("/proc/self/fd")))):
        flushed = {id(thing) for _path, thing in things_in(("", sys.stdout), ("", sys.stderr))}
        modules = [("", each) for each in list(sys.modules.values()) if is_users_module(each)]
        for _path, thing in things_in(("", process), *modules):
            try:
                is_file = type(thing).__module__ == "_io" and id(thing) not in flushed and _writes_file(thing.fileno())
                length = _length(thing) if is_file else 0
            except (AttributeError, OSError, ValueError):
                continue  # it is closed, or in memory
            if length > 0:
                found[id(thing)] = thing, length
    return found


def _tell_lost(process, before):
    code = getattr(getattr(process, "_target", None), "__code__", None)
    place = place_of_code(code, getattr(code, "co_name", ""))
    for key, (file, length) in _kept(process).items():
        length -= before.get(key, (None, 0))[1]
        if length > 0:
            tell("bytes-lost", path=os.readlink("/proc/self/fd/%d" % file.fileno()), bytes=length, **place)


# ---- samples

_ALWAYS, _EACH, _MOST_TOLD = 16, 37, 64  # indices that are looked at: the first ones, and each so many; told of a worker
_FEWEST_ELEMENTS = 8  # a number of its own may be a counter


def _is_array(thing):
    if type(thing) is sys.modules["torch"].Tensor:
        return thing.layout == sys.modules["torch"].strided and thing.device.type == "cpu" and thing.numel() >= _FEWEST_ELEMENTS
    return isinstance(thing, getattr(sys.modules.get("numpy"), "ndarray", ())) and thing.size >= _FEWEST_ELEMENTS


def _first_array(sample):
    if isinstance(sample, dict):
        sample = tuple(dict.values(sample))
    return next(filter(_is_array, sample if isinstance(sample, (list, tuple)) else (sample,)), None)


def _as_array(value):
    return value.detach().numpy() if hasattr(value, "detach") else value


def _address(array):
    return array.__array_interface__["data"][0]


def _is_in(array, memory):
    return 0 <= _address(array) - _address(memory) < memory.nbytes


class _Row:
    """Where a sample is, in what memory of whose. `holders`: arrays of the data set, where a tensor may begin that has no base."""

    def __init__(self, value, holders):
        owner, array = value, _as_array(value)
        while _is_array(getattr(owner, "_base" if hasattr(owner, "_base") else "base", None)):
            owner = owner._base if hasattr(owner, "_base") else owner.base
        if owner is value:
            owner = next((each for each in (holder() for holder in holders) if each is not None and _is_in(array, _as_array(each))), value)
        self.offset = _address(array) - _address(_as_array(owner))
        self.owner, self.form = ref(owner), (array.shape, array.dtype, array.strides)

    def is_at(self, other, offset):
        return other.owner() is self.owner() is not None and self.form == other.form and self.offset == offset

    def digest(self, offset):
        """Of what is there; None: it is gone."""
        owner, (shape, kind, strides) = self.owner(), self.form
        if owner is None or offset < 0:
            return None
        return load("dlprobe_data").digest(sys.modules["numpy"].ndarray(shape, kind, _as_array(owner), offset, strides))


class Samples:
    """Of a map-style data set, by their indices. Those that are rows of one array are where their indices say."""

    def __init__(self, fields, things):
        self._fields, self._rows, self._before, self._told = fields, {}, {}, 0
        self._holders = [ref(each) for _path, each in things if _is_array(each)]

    def begin(self, _fetcher, frame):
        self._before, indices = {}, frame.f_locals["possibly_batched_index"]
        for index in indices if type(indices) is list else ():
            if type(index) is int and (index < _ALWAYS or index % _EACH == 0):
                row, offset = self._place_of(index)
                before = None if row is None else row.digest(offset)
                if before is not None:
                    self._before[index] = row, offset, before
        return self._told < _MOST_TOLD

    def _place_of(self, index):
        if index in self._rows:
            return self._rows[index], self._rows[index].offset
        (first, one), (second, other) = (list(self._rows.items()) + 2 * [(0, None)])[:2]
        if other is None or not other.is_at(one, other.offset):
            return None, 0
        step, rest = divmod(other.offset - one.offset, second - first)
        return (one if step and not rest else None), one.offset + (index - first) * step

    def end(self, _fetcher, frame):
        indices, samples, changed = frame.f_locals["possibly_batched_index"], frame.f_locals["data"], []
        for index, sample in zip(indices, samples) if type(indices) is list and type(samples) is list else ():
            if type(index) is int and (index in self._before or index < _ALWAYS or len(self._rows) < 2):
                value = _first_array(sample)
                if value is not None:
                    changed.extend(self._change_of(index, _Row(value, self._holders)))
        if changed:
            self._told += len(changed)
            tell("samples-rewritten", digests=changed, **self._fields)
        return self._told < _MOST_TOLD

    def _change_of(self, index, now):
        row, offset, before = self._before.get(index, (None, 0, None))
        if index < _ALWAYS or len(self._rows) < 2:
            self._rows[index] = now
        if row is not None and now.is_at(row, offset):
            after = now.digest(offset)
            if after != before:
                yield "%d %s %s" % (index, before, after)


# ---- in a child


class Gate:
    """Has this thread written more than what it sends? Then files are watched. An audit hook stays, and makes id() slow."""

    def __init__(self):
        self._pid, self._thread, self._looks, self._writes, self._last = os.getpid(), get_ident(), 0, 0, None

    @staticmethod
    def _written():
        file = os.open("/proc/thread-self/io", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(file, 400).split(None, 4)[3])
        finally:
            os.close(file)

    def _look(self, written):
        self._looks += 1
        self._writes += self._last is not None and written > self._last
        if self._writes == _WRITES_THAT_PROVE:
            _watch_files()
        return self._writes < _WRITES_THAT_PROVE and self._looks < _MOST_LOOKS

    def begin(self, *_):
        """Of a sample or a batch of a DataLoader."""
        self._last = self._written()
        return self._looks < _MOST_LOOKS

    def end(self, *_):
        return self._look(self._written())

    def goes_on(self, _pipe, size, worker):
        """It is about to send the result of a task."""
        if worker is None or os.getpid() != self._pid or get_ident() != self._thread:
            return True
        written = self._written()
        goes_on, self._last = self._look(written), written + size() + _HEADER
        return goes_on


def _watch_files():
    global _is_hooked
    if HAS_AUDIT and not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_files)


def _before_command(_popen, frame):
    if any(path.startswith(_TEMPORARY) for path in _words(frame.f_locals.get("args"))):
        _watch_files()


def begin_child(process, frame):
    """`frame`: of multiprocessing, which begins it."""
    _files.__init__()
    target, popen = getattr(process, "_target", None), getattr(sys.modules.get("subprocess"), "Popen", None)
    if getattr(target, "__module__", "").endswith(POOLS):
        watch_sends(Gate())
    if popen is not None and not isinstance(vars(popen)["_execute_child"], Noticed):
        popen._execute_child = Noticed(vars(popen)["_execute_child"], _before_command)
    while frame is not None and frame.f_code.co_name not in _ENDS_AT_ONCE:
        frame = frame.f_back
    if frame is not None and frame.f_globals.get("__name__", "").startswith("multiprocessing."):
        sys.modules["multiprocessing.util"].Finalize(None, _tell_lost, (process, _kept(process)), exitpriority=-1000)


_files, _is_hooked = _Files(), False
