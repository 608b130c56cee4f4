"""Tensors that a process sends by queues and pools, whose memory it writes to before it sends them again: when each was sent and
when it came, and whether who got them still has them. PyTorch sends a tensor by the name of its memory.
"""
import os
import sys

from dlprobe_data import digest, storage_of, version_of
from dlprobe_hooks import call_before
from dlprobe_start import now, tell
from dlprobe_trace import users_line

_MOST_PARTS = 16  # of memory, of one process
_MOST_TIMES = 16  # of each
_MOST_KEYS = 4096

_keys = {}  # by the address of a storage: how other processes know its memory


def _checksum(tensor):
    return digest(tensor.detach())[-4:]


def _part_of(tensor):
    """None: nothing is said of it."""
    if tensor.layout != sys.modules["torch"].strided or tensor.device.type != "cpu" or tensor.numel() < 2:
        return None
    return tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


class _Parts:
    """What a process sent, or what came to it, by part of memory."""

    def __init__(self):
        self._parts, self._pid = {}, os.getpid()

    def of(self, name, make):
        """None: enough was seen."""
        if os.getpid() != self._pid:
            self.__init__()
        part = self._parts.get(name)
        if part is None and len(self._parts) < _MOST_PARTS:
            part = self._parts[name] = make()
        if part is None or part.count == _MOST_TIMES:
            return None
        part.count += 1
        return part

    def all(self):
        return list(self._parts.values()) if os.getpid() == self._pid else []


def _name_of(key, part):
    return sys.modules["zlib"].crc32(repr((key, part)).encode())


class _Sent:
    def __init__(self, tensor, part, place):
        storage = storage_of(tensor)
        self._part, self._address = part, storage._cdata
        self._reference = sys.modules["torch.multiprocessing.reductions"].StorageWeakRef(storage)  # keeps the address taken
        self._place, self.count, self._version, self._new = place, 0, -1, []

    def add(self, tensor):
        self._new.append("%d %s" % (now(), _checksum(tensor) if version_of(tensor) > self._version else "-"))
        self._version = version_of(tensor)
        self.tell()

    def tell(self):
        """Before it is first pickled, its memory has no name."""
        if self._new and self.count > 1 and self._address in _keys:
            new, self._new = self._new, []
            tell("tensors-sent", digests=new, loader=_name_of(_keys[self._address], self._part), **self._place)


class _Taken:
    def __init__(self):
        self.count, self._tensors = 0, []

    def add(self, tensor, name):
        checksum = _checksum(tensor)
        kept = sum(reference() is not None and before != checksum for reference, before in self._tensors)
        self._tensors.append((sys.modules["weakref"].ref(tensor), checksum))
        tell("tensors-taken", digests=["%d %d" % (now(), kept)], loader=name)


_sent, _taken = _Parts(), _Parts()


def before_send(tensor, frame):
    part = _part_of(tensor)
    sent = part and _sent.of((storage_of(tensor)._cdata, part), lambda: _Sent(tensor, part, users_line(frame)))
    if sent:
        sent.add(tensor)


def _before_pickle(tensor):
    frame = sys._getframe(2)
    callers = frame.f_code.co_name, frame.f_back.f_code.co_name, frame.f_back.f_back.f_code.co_name
    if callers[:2] == ("reduce_tensor", "dumps") and callers[2] != "_feed":  # of a Queue: before it is put
        before_send(tensor, frame)


def _after_take(tensor):
    part, key = _part_of(tensor), _keys.get(storage_of(tensor)._cdata)
    if part and key is not None:
        name = _name_of(key, part)
        taken = _taken.of(name, _Taken)
        if taken:
            taken.add(tensor, name)


def hook(module):
    def before_set(_cache, key, reference):
        if len(_keys) == _MOST_KEYS:
            _keys.clear()  # most are of memory that was freed
        _keys[reference.cdata] = key
        for sent in _sent.all():
            sent.tell()

    original = module.rebuild_tensor

    def rebuild_tensor(*arguments):
        tensor = original(*arguments)
        try:
            _after_take(tensor)
        except Exception:
            pass
        return tensor

    rebuild_tensor.__module__, rebuild_tensor.__qualname__ = original.__module__, original.__qualname__
    module.rebuild_tensor = rebuild_tensor
    call_before(module.SharedCache, "__setitem__", before_set)
    call_before(sys.modules["torch.utils.hooks"], "warn_if_has_hooks", _before_pickle)
