"""Whether workers that live on (persistent_workers) hear what their trainer sets for a later epoch, on the data set, its
transforms or in a global variable: they have copies. Looked at is what the program's own code for a sample reads, by its byte
code; nothing of it is called.
"""
import sys
from itertools import islice

from dlprobe_data import digest, is_map_style, pipe_of, place_of_samples
from dlprobe_random import Unknown, attributes_of, is_users_module, items
from dlprobe_start import tell
from dlprobe_trace import MAIN_NAMES

_MOST_EPOCHS = 64
_MOST_SETTINGS, _MOST_THINGS = 100, 200
_MOST_PIECES = 4000  # of a setting
_MOST_OF_LIST = 16
_CALLED = ("__call__", "__getitem__", "__getitems__", "__iter__", "__next__", "forward")  # by no name
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD")
_PASSES_OVER_NOTHING = ("FOR_", "SETUP_", "SEND")
_FUNCTION, _METHOD = type(items), type(tell.__get__(1))
_WRAPPED = (staticmethod, classmethod)
_WRAPPERS = "torch.utils.data."


def _is_read(module):
    return is_users_module(sys.modules.get(module)) or str(module).startswith(_WRAPPERS)


def _surely_run(code):
    """The instructions up to the first return that no condition passes over (of loops all are), and that are not those of a handler
    of exceptions: what is read only elsewhere may never be."""
    dis, end, is_handler, before = sys.modules["dis"], 0, False, ""
    for each in dis.get_instructions(code):
        is_handler = is_handler or each.opname == "PUSH_EXC_INFO"
        if each.offset >= end and not is_handler:
            yield each
        if each.opname in ("RETURN_VALUE", "RETURN_CONST"):
            return
        is_jump = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
        if is_jump and not each.opname.startswith(_PASSES_OVER_NOTHING):
            end = max(end, each.argval)
        if each.opname == "RERAISE" and before == "POP_EXCEPT":
            is_handler = False
        before = each.opname


class _Settings(dict):
    """By path: a checksum of path and value, and how the value is shown."""

    def __init__(self, **things):
        super().__init__()
        self._things, self._used, self._names, self._codes = [], set(), set(_CALLED), set()
        for path, thing in things.items():
            self._use(path, thing)
        count = 0
        while count != len(self._names) + len(self._things):
            count = len(self._names) + len(self._things)
            for path, thing in list(self._things):
                self._look_into(path, thing)

    def _use(self, path, value):
        if path in self or id(value) in self._used or len(self) >= _MOST_SETTINGS:
            return
        kind = type(value)
        try:
            if issubclass(kind, dict) and dict.__len__(value) > _MOST_PIECES:
                raise Unknown  # it would be copied
            self[path] = digest([path, value], _MOST_PIECES), repr(value) if kind in (int, float, bool) else None
        except Unknown:  # it has parts
            if len(self._things) < _MOST_THINGS:
                self._used.add(id(value))
                self._things.append((path, value))
                name = value.__qualname__ if kind is _FUNCTION else kind.__qualname__
                self[path] = digest([path, name]), name

    def _look_into(self, path, thing):
        kind = type(thing)
        if kind is _FUNCTION:
            self._read(thing)
        elif kind is _METHOD:
            self._use(path + ".__self__", thing.__self__)
            self._read(thing.__func__)
        elif issubclass(kind, (dict, list, tuple)):
            parts = dict.values(thing) if issubclass(kind, dict) else items(thing)
            for index, each in enumerate(islice(parts, _MOST_OF_LIST)):
                self._use("%s[%d]" % (path, index), each)
        elif kind.__module__ == "functools" and kind.__name__ == "partial":
            self._use(path + ".func", thing.func)
            self._use(path + ".args", thing.args)
            self._use(path + ".keywords", thing.keywords)
        elif kind is type or kind is type(sys) or _is_read(kind.__module__):
            self._read_members(path, thing)

    def _read_members(self, path, thing):
        own, classes = attributes_of(thing), thing.__mro__ if type(thing) is type else type(thing).__mro__
        for name in sorted(self._names):
            owner = next((each for each in classes if name in vars(each)), None)
            if name in own and type(thing) is not type:
                self._use(("%s.%s" % (path, name)).lstrip("."), own[name])
            elif owner is not None:
                member = vars(owner)[name]
                member = member.fget if type(member) is property else member.__func__ if type(member) in _WRAPPED else member
                if type(member) is _FUNCTION:
                    self._read(member)
                elif is_users_module(sys.modules.get(owner.__module__)):
                    self._use("%s.%s" % (owner.__qualname__, name), member)

    def _read(self, function):
        if _is_read(function.__module__):
            self._read_code(function.__code__, function.__globals__)

    def _read_code(self, code, known):
        if code in self._codes:
            return
        self._codes.add(code)
        for each in _surely_run(code):
            if each.opname in _READS:
                self._names.add(each.argval)
            elif each.opname == "LOAD_GLOBAL" and each.argval in known:
                self._use_global(each.argval, known[each.argval], known["__name__"])
            elif type(each.argval) is type(code):
                self._read_code(each.argval, known)

    def _use_global(self, name, value, module):
        if type(value) is type(sys):
            if is_users_module(value):
                self._use(name, value)
        elif type(value) is not type or is_users_module(sys.modules.get(value.__module__)):
            self._use(name if module in MAIN_NAMES else "%s.%s" % (module, name), value)


def _settings_of(dataset, collate):
    return dict(_Settings(dataset=dataset, collate_fn=collate)) if "dis" in sys.modules else {}  # nothing of them is kept


# ---- in a trainer


class _Trainer:
    def __init__(self, settings):
        self.settings, self._epochs, self._told = settings, 0, set()

    def look(self, loader):
        """Before a later epoch."""
        self._epochs += 1
        if self._epochs > _MOST_EPOCHS:
            return
        now = _settings_of(loader.dataset, loader.collate_fn)
        for path in sorted(set(now) & set(self.settings) - self._told):
            (before, shown), (after, shown_now) = self.settings[path], now[path]
            if before != after:
                self._told.add(path)
                tell("setting-changed", path=path, message=shown, wanted=shown_now, digests=[before], loader=pipe_of(loader._iterator),
                     **place_of_samples(loader.dataset, is_map_style(loader._dataset_kind)))


_trainers = []


def look_at_trainer(loader):
    """Before an epoch of a loader whose workers live on."""
    if not _trainers:
        _trainers.append(sys.modules["weakref"].WeakKeyDictionary())
    if loader._iterator is None:
        _trainers[0][loader] = _Trainer(_settings_of(loader.dataset, loader.collate_fn))
    elif loader in _trainers[0]:
        _trainers[0][loader].look(loader)


# ---- in a worker

class _Worker:
    """What never changed there."""

    def __init__(self):
        self._kept, self._epochs = None, 0

    def look(self, here, pipe):
        """`here`: the variables of PyTorch's worker loop, before a later epoch."""
        self._epochs += 1
        if self._epochs > _MOST_EPOCHS:
            return
        kept = {digest for digest, _shown in _settings_of(here["dataset"], here["collate_fn"]).values()}
        if self._kept is not None:
            kept &= self._kept
        if kept != self._kept:
            self._kept = kept
            tell("settings-kept", digests=sorted(kept), count=here["worker_id"], loader=pipe)


worker = _Worker()
