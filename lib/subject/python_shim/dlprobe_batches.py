"""Whether a trainer takes the batches that its workers sent: checksums of the first ones, as a worker puts them into its queue and
as the trainer hands them out. A tensor that is sent stays the worker's own memory, and may be written again before it is taken.

A worker tells of what it may write itself: a table that it shares may be written by others on purpose.
"""
import sys
from itertools import islice

from dlprobe_data import digest, is_map_style, pipe_of, place_of, storage_of, version_of
from dlprobe_hooks import Noticed
from dlprobe_random import items
from dlprobe_start import tell
from dlprobe_trace import place_of_code, users_line

_MOST_BATCHES = 64  # of one iterator
_STEPS = (2, 4, 8, 16, 32, _MOST_BATCHES)
_MOST_ITERATORS = 8  # of one trainer
_MOST_ARRAYS = 16  # of one batch
_MOST_OF_LIST = 64
_MOST_DEPTH = 4


def _arrays_in(value, depth=0):
    """Its tensors and arrays, where it is made of nothing but what is the same after it was sent."""
    kind = type(value)
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if kind is torch.Tensor or (numpy is not None and kind is numpy.ndarray):
        yield value
    elif depth < _MOST_DEPTH and issubclass(kind, (dict, list, tuple)):
        for each in islice(dict.values(value) if issubclass(kind, dict) else items(value), _MOST_OF_LIST):
            yield from _arrays_in(each, depth + 1)


def _short(thing):
    try:
        return digest(thing)[-4:]
    except Exception:  # it is not on the CPU, sparse or of objects
        return "-"


def _batch(index, arrays, is_told):
    """Its number, a checksum of how it is built, and those of its arrays."""
    shapes = [(str(each.dtype), *each.shape) for each in arrays]
    return " ".join([str(index), _short(shapes)] + [_short(each) if wanted else "-" for each, wanted in zip(arrays, is_told)])


class _Log:
    def __init__(self, kind, fields):
        self._kind, self._fields, self._new, self._count, self._last = kind, fields, [], 0, -1
        sys.modules["multiprocessing.util"].Finalize(None, self.tell, exitpriority=0)

    def goes_on(self, index):
        """Whether that is a batch of the same epoch, and one of the first."""
        is_next = self._last < index < _MOST_BATCHES
        self._last = index if is_next else _MOST_BATCHES
        return is_next

    def add(self, batch):
        self._new.append(batch)
        self._count += 1
        if self._count in _STEPS:
            self.tell()

    def tell(self):
        new, self._new = self._new, []
        if new:
            tell(self._kind, digests=new, **self._fields)


class _Hook:
    """On a method that is looked up to be called, until `notice` says that it has seen enough."""

    def __init__(self, owner, name, notice):
        self._owner = next(each for each in owner.__mro__ if name in vars(each))
        self._name, self._notice = name, notice
        self._noticed = Noticed(vars(self._owner)[name], self._look)
        setattr(self._owner, name, self._noticed)

    def _look(self, instance, frame):
        goes_on = False
        try:
            goes_on = self._notice(instance, frame)
        finally:
            if not goes_on and vars(self._owner).get(self._name) is self._noticed:
                setattr(self._owner, self._name, self._noticed.member)


# ---- in a worker


class _Sent:
    def __init__(self, queue, loop, fields):
        self._queue, self._loop, self._log = queue, loop, _Log("batches-sent", fields)
        self._storages = {}  # by address: a weak reference, which keeps the address taken, and the version that was sent

    def __call__(self, queue, frame):
        if queue is not self._queue or frame.f_code is not self._loop:
            return True
        here = frame.f_locals
        index, data = here.get("idx"), here.get("data")
        if type(here) is dict:
            here.pop("data", None)  # CPython keeps what was looked at so (up to 3.12)
        if type(index) is not int or not self._log.goes_on(index):
            return False
        arrays = list(islice(_arrays_in(data), _MOST_ARRAYS))
        is_told = self._may_be_written(arrays)
        if any(is_told):
            self._log.add(_batch(index, arrays, is_told))
        return True

    def _may_be_written(self, arrays):
        """Which of them by this worker, and can be read: until it is shared, the memory of what was sent may be exchanged."""
        torch, now, answers = sys.modules["torch"], {}, []
        make_reference = sys.modules["torch.multiprocessing.reductions"].StorageWeakRef
        for each in arrays:
            if type(each) is not torch.Tensor:
                answers.append(True)
                continue
            if each.layout != torch.strided or each.device.type != "cpu":
                answers.append(False)
                continue
            storage = storage_of(each)
            address, is_shared = storage._cdata, storage.is_shared()
            reference, version = self._storages.get(address, (None, 0))
            is_written = version_of(each) > version
            answers.append(now.setdefault(address, not is_shared if reference is None else is_shared and is_written))
            self._storages[address] = reference or make_reference(storage), max(version, version_of(each))
        return answers


def _place_of_collate(function):
    while type(function).__module__ == "functools" and type(function).__name__ == "partial":
        function = function.func
    if type(function) in (type(items), type(tell.__get__(1))):
        return place_of_code(function.__code__, function.__qualname__)
    return place_of(function, "__call__")


def watch_sender(here, fields):
    """`here`: the variables of PyTorch's worker loop."""
    place = _place_of_collate(here["collate_fn"]) if here["auto_collation"] else {}
    queue = here["data_queue"]
    loop = sys.modules["torch.utils.data._utils.worker"]._worker_loop.__code__
    _Hook(type(queue), "put", _Sent(queue, loop, dict(fields, **place)))


# ---- in a trainer


class _Taken:
    def __init__(self):
        self._logs = sys.modules["weakref"].WeakKeyDictionary()
        self._count = 0

    def __call__(self, iterator, frame):
        if frame.f_code.co_name != "_process_data":
            return True
        log = self._logs.get(iterator)
        if log is None:
            if self._count == _MOST_ITERATORS:
                return False
            self._count += 1
            log = self._logs[iterator] = _Log("batches-taken", dict(users_line(frame), loader=pipe_of(iterator)))
        index = iterator._rcvd_idx - 1
        if getattr(iterator, "_in_order", True) and log.goes_on(index):  # torch 2.6
            arrays = list(islice(_arrays_in(frame.f_locals["data"]), _MOST_ARRAYS))
            if arrays:
                log.add(_batch(index, arrays, [True] * len(arrays)))
        return True


def _watch_rest(error, frame):
    """The trainer is about to raise what a worker raised: does it go on with that iterator?"""
    raising = frame.f_locals.get("self")
    if frame.f_code.co_name != "_process_data" or is_map_style(raising._dataset_kind):
        return
    pipe, kind = pipe_of(raising), error.exc_type.__name__
    iterator, received = sys.modules["weakref"].ref(raising), raising._rcvd_idx

    def notice(instance, _frame):
        is_it = instance is iterator()
        if is_it and instance._rcvd_idx >= received:  # it is no new epoch of it
            tell("result-lost", type=kind, again=kind, loader=pipe)
        return not is_it and iterator() is not None

    _Hook(type(raising), "_process_data", notice)


_is_watched = False


def watch_taker(module):
    """With it, what the trainer goes on without."""
    global _is_watched
    if not _is_watched:
        _is_watched = True
        _Hook(module._MultiProcessingDataLoaderIter, "_try_put_index", _Taken())
        wrapper = sys.modules["torch._utils"].ExceptionWrapper
        wrapper.reraise = Noticed(wrapper.reraise, _watch_rest)
