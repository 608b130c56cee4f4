"""Whether an array is sent as it was put: a queue of multiprocessing pickles later, in a thread of its own, and the program may
write to the array meanwhile.
"""
import os
import sys
from collections import deque
from itertools import islice

from dlprobe_hooks import Noticed
from dlprobe_random import before_put
from dlprobe_start import load, pass_on, tell
from dlprobe_trace import users_line

_MOST_THINGS = 64  # of one queue in one process
_STEPS = (2, 4, 8, 16, 32, _MOST_THINGS)
_MOST_ARRAYS = 16
_MOST_OF_LIST = 16
_MOST_DEPTH = 3
_MOST_ELEMENTS = 4096


def _arrays_in(thing, kind_of_array, depth=0):
    if type(thing) is kind_of_array and not getattr(thing.dtype, "hasobject", False):
        yield thing
    elif depth < _MOST_DEPTH and type(thing) in (dict, list, tuple):
        for each in list(thing.values() if type(thing) is dict else thing)[:_MOST_OF_LIST]:
            yield from _arrays_in(each, kind_of_array, depth + 1)


def _checksum(array):
    part = array.flat[::max(1, array.size // _MOST_ELEMENTS)]
    return "%04x" % (hash((array.shape, part.tobytes())) & 0xFFFF)


class _Buffer(deque):
    """What waits to be pickled. `append` is called by who puts it, `popleft` by the queue's thread."""

    def __init__(self, pipe):
        super().__init__()
        self._pipe, self._pid, self._marks, self._count, self._pairs = pipe, os.getpid(), deque(), 0, []

    def append(self, thing):
        mark = None
        try:
            self._look_at_tensors(thing, sys._getframe(1))
            if self._count < _MOST_THINGS and "numpy" in sys.modules:
                mark = self._look(thing, sys._getframe(1))
        except Exception:
            pass
        try:
            before_put(thing, self._pipe)
        except Exception as error:
            pass_on(error)
        self._marks.append(mark)  # before the thing: it is there when that is taken
        super().append(thing)

    def popleft(self):
        thing = super().popleft()
        mark = self._marks.popleft()
        if mark is not None:
            try:
                self._compare(*mark)
            except Exception:
                pass
        return thing

    def clear(self):
        self._marks.clear()
        super().clear()

    def _look(self, thing, put):
        self._count += 1
        arrays = list(_arrays_in(thing, sys.modules["numpy"].ndarray))[:_MOST_ARRAYS]
        if not arrays or put.f_back.f_code.co_name == "_worker_loop":  # of PyTorch: dlprobe_batches.py
            return None
        return self._count, arrays, [_checksum(each) for each in arrays], users_line(put)

    def _look_at_tensors(self, thing, put):
        module = sys.modules.get("dlprobe_tensors")  # with torch.multiprocessing
        if module is not None and put.f_back.f_code.co_name != "_worker_loop":
            for each in islice(_arrays_in(thing, sys.modules["torch"].Tensor), _MOST_ARRAYS):
                module.before_send(each, put)

    def _compare(self, number, arrays, sums, place):
        name = "%d.%d " % (self._pid, number)
        shapes = "%d " % len(arrays)
        self._pairs.append((name + shapes + " ".join(sums), name + shapes + " ".join(map(_checksum, arrays))))
        if number in _STEPS or not self:
            sent, taken = zip(*self._pairs)
            self._pairs = []
            tell("batches-sent", digests=list(sent), loader=self._pipe, **place)
            tell("batches-taken", digests=list(taken), loader=self._pipe)


def hook(module):
    def before_start(queue, _frame):  # of its thread, by what is put first
        queue._buffer = _Buffer(os.fstat(queue._reader.fileno()).st_ino)

    load("dlprobe_files")  # once for all processes that are forked
    module.Queue._start_thread = Noticed(vars(module.Queue)["_start_thread"], before_start)
