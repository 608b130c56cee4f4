"""Where in an object that is to be sent to a process the part lies that cannot be pickled."""
import sys
import time

from dlprobe_start import tell
from dlprobe_trace import absolute

_SEARCH_SECONDS = 2.0


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
