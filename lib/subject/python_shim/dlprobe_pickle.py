"""Where in an object that is to be sent to a process the part lies that cannot be pickled."""
import sys
import time

from dlprobe_start import tell
from dlprobe_trace import absolute, users_line, users_place

_SEARCH_SECONDS = 2.0
_SECONDS_FOR_LOCK = 0.05


class _Found(Exception):
    pass


def _definition_line(thing):
    """Where a function or a class of the user's own is defined."""
    code = getattr(thing, "__code__", None)
    if code is None and isinstance(thing, type):
        codes = [getattr(each, "__code__", None) for each in vars(thing).values()]
        codes = [each for each in codes if each is not None]
        code = min(codes, key=lambda each: each.co_firstlineno) if codes else None
    if code is None:
        return {}
    return {"file": absolute(code.co_filename), "line": code.co_firstlineno, "function": getattr(thing, "__qualname__", "")}


def _kind_of(thing):
    if getattr(thing, "__name__", "") == "<lambda>":
        return "lambda"
    local = "<locals>" in getattr(thing, "__qualname__", "")
    if isinstance(thing, type):
        return ("local class " if local else "class ") + thing.__qualname__
    if hasattr(thing, "__code__"):
        return "local function" if local else "function"
    if "<locals>" in type(thing).__qualname__:
        return "instance of local class " + type(thing).__qualname__
    module = type(thing).__module__
    return type(thing).__qualname__ if module == "builtins" else module + "." + type(thing).__qualname__


def _step(parent, child, before):
    """How `child` is reached from `parent`: ".name", "[3]", "['key']"; "" where the pickler's own parts lie between."""
    if isinstance(parent, dict):
        for key, value in parent.items():
            if value is child:
                is_state = before is not None and not isinstance(before, (dict, list, tuple, set))
                return ".%s" % key if is_state and isinstance(key, str) else "[%r]" % (key,)
        return ""
    if isinstance(parent, (list, tuple)):
        for index, value in enumerate(parent):
            if value is child:
                is_state = before is not None and not isinstance(before, (dict, list, tuple, set))
                return "" if is_state else "[%d]" % index
    return ""


def _path_of(chain):
    path = ""
    for position in range(1, len(chain)):
        before = chain[position - 2] if position > 1 else None
        path += _step(chain[position - 1], chain[position], before)
    return path


def _find_unpicklable(root):
    """The chain of objects from `root` to what cannot be pickled; None if it can be. Does what pickle does, in Python,
    so that the place is known; what multiprocessing and torch send in ways of their own is left out."""
    import pickle
    from multiprocessing.reduction import ForkingPickler
    plain = (type(_find_unpicklable), type(tell.__get__(1)))
    own_ways = {each for each in getattr(ForkingPickler, "_extra_reducers", {}) if each not in plain
                and each.__module__ not in ("functools", "builtins")}
    deadline = time.monotonic() + _SEARCH_SECONDS
    chain, found = [], []

    class Nowhere:
        @staticmethod
        def write(_data):
            pass

    class Searching(pickle._Pickler):
        def save(self, thing, *arguments, **keywords):
            if time.monotonic() > deadline or len(chain) > 200:
                raise _Found
            module = type(thing).__module__ or ""
            if type(thing) in own_ways or module.partition(".")[0] == "multiprocessing" and not isinstance(thing, type):
                return super().save(None, *arguments, **keywords)
            chain.append(thing)
            try:
                super().save(thing, *arguments, **keywords)
            except _Found:
                raise
            except BaseException:  # also SystemExit of the object's own __reduce__: nothing may come of a second try
                found[:] = list(chain)
                raise _Found
            chain.pop()
            return None

    try:
        Searching(Nowhere, 4).save(root)
    except _Found:
        pass
    except BaseException:
        return None
    return found or None


def _named_arguments(process):
    """What a Process is to be given, by the names that its target has for it."""
    target, values = process._target, list(process._args)
    named = {}
    code = getattr(target, "__code__", None)
    names = list(code.co_varnames[:code.co_argcount]) if code is not None else []
    if getattr(target, "__self__", None) is not None:
        names = names[1:]
    for index, value in enumerate(values):
        named[names[index] if index < len(names) else "args[%d]" % index] = value
    named.update(process._kwargs)
    named["target"] = target
    return named


def _sent_parts(thing):
    """What was to be pickled, by name: of a Process what it is to be given, of a pool's task the call itself."""
    if isinstance(thing, sys.modules["multiprocessing.process"].BaseProcess):
        parts = _named_arguments(thing) if type(thing).run.__module__ == "multiprocessing.process" else {}
        # An own subclass is sent with all that it has.
        parts.update((key, value) for key, value in vars(thing).items() if not key.startswith("_") or not parts)
        return parts
    return {"task": thing}


def unpicklable(thing):
    for name, value in _sent_parts(thing).items():
        chain = _find_unpicklable(value)
        if chain is not None:
            culprit = chain[-1]
            fields = {"path": name + _path_of(chain), "type": _kind_of(culprit)}
            fields.update(_definition_line(culprit) or _definition_line(type(culprit)))
            return fields
    return {}


# ---- what the context fork made, and another one cannot send


def _parts_of(thing):
    if isinstance(thing, dict):
        return [("[%r]" % (key,), each) for key, each in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [("[%d]" % index, each) for index, each in enumerate(thing)]
    try:
        return [(".%s" % name, each) for name, each in object.__getattribute__(thing, "__dict__").items()]
    except AttributeError:
        return []


def _is_of_multiprocessing(thing):
    return any(each.__module__.partition(".")[0] == "multiprocessing" for each in type(thing).__mro__)


def _way_to(lock, thing, until, depth=6):
    """How `lock` is reached from `thing`, up to what multiprocessing made with it, and that; None: it is not found."""
    if thing is lock:
        return "", thing
    if depth == 0 or time.monotonic() > until:
        return None
    for step, each in _parts_of(thing):
        found = _way_to(lock, each, until, depth - 1)
        if found is not None:
            return ("", thing) if _is_of_multiprocessing(thing) else (step + found[0], found[1])
    return None


def lock_of_fork(lock, sent):
    """The fields of a refusal: where in what is sent to a process the lock is that the context fork made."""
    fields = {"cause": "not-rebuilt", "wanted": "fork", "type": type(lock).__name__}
    until = time.monotonic() + _SECONDS_FOR_LOCK
    for name, value in _sent_parts(sent).items():
        found = _way_to(lock, value, until)
        if found is not None:
            return dict(fields, path=name + found[0], type=type(found[1]).__name__)
    return fields


_told_locks = set()


def watch_locks(module, noticed):
    """Where the interpreter takes it for one (until CPython 3.11.5): the other process has an address that is none there."""
    if "_is_fork_ctx" in module.SemLock.__init__.__code__.co_names:
        return

    def notice(lock, frame):
        method = getattr(module.context.get_spawning_popen(), "method", "fork")
        if lock is None or lock._semlock.name is not None or method == "fork":
            return
        place = users_line(frame)
        while frame.f_code.co_name != "dump":
            frame = frame.f_back
        fields = dict(lock_of_fork(lock, frame.f_locals["obj"]), method=method, **place)
        if str(fields) not in _told_locks:
            _told_locks.add(str(fields))
            tell("refused", **fields)

    module.SemLock.__getstate__ = noticed(vars(module.SemLock)["__getstate__"], notice)


def only_inherited(trace):
    """What a process can only be given when it starts."""
    kind = type(trace.entries[-1][0].f_locals["obj"]).__name__
    return dict(users_place(trace.entries), cause="unpicklable", wanted="inheritance", type=kind)
