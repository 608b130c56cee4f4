"""Results of pools and executors that are exceptions, and that nobody asked for until they were freed or the program ended: the
work was lost in silence. Of a task that works it is noted that somebody asked. And exceptions that a child makes text of, for
that may be the result.
"""
import atexit
import os
import sys
from functools import partial

from dlprobe_hooks import Noticed, call_before, tell_end
from dlprobe_start import describe, tell
from dlprobe_trace import Trace, causes_of, entries_of, keep_room, users_place

_owner = os.getpid()
_MOST_KEPT = 64
_MOST_IN_WORDS = 20  # of one process, each place once
_done = set()  # exceptions, by class and line, that were told or asked for: who asks for one knows of the others
_failed = {}  # by its address: a weak reference to the result, which exception it is, and what is told of it
_asked = sys.modules["weakref"].WeakSet()  # before they came


def _is_freed(address, _reference=None):
    try:
        _reference, key, fields = _failed.pop(address)
        if key not in _done and os.getpid() == _owner:
            _done.add(key)
            tell("result-lost", **fields)
    except Exception:
        pass


def _note(result, error, is_awaited):
    """Keeps nothing of the exception itself: its frames may have the result."""
    if not isinstance(error, Exception) or len(_failed) >= _MOST_KEPT:
        return
    place, kind = users_place(entries_of(error)), type(error).__name__
    is_remote = type(error.__cause__).__name__.endswith("RemoteTraceback") or not entries_of(error)
    key = kind, place.get("file"), place.get("line")
    if is_awaited or result in _asked:
        _done.add(key)
    elif key not in _done and (is_remote or place):
        reference = sys.modules["weakref"].ref(result, partial(_is_freed, id(result)))
        _failed[id(result)] = reference, key, dict(place, message=describe(error), type=kind, again=kind if is_remote else None)


def _ask(result, _frame):
    known = _failed.pop(id(result), None)
    if known is not None:
        _done.add(known[1])
    if result is not None:
        _asked.add(result)


def _watch(owner, *names):
    """Who looks one of these up asks for the result."""
    for name in names:
        setattr(owner, name, Noticed(vars(owner)[name], _ask))


@atexit.register
def _tell_all():
    for address in list(_failed):
        _is_freed(address)


class _Success:
    """That of a pool's results, in its place: a task that works does no more than set it."""

    def __get__(self, result, owner=None):
        # Not yet set it has a value, too: a manager asks for each name that dir() gives of what it serves.
        return self if result is None else result.__dict__.get("_success")

    def __set__(self, result, value):
        result.__dict__["_success"] = value
        if value:
            return
        try:
            here = sys._getframe(1).f_locals
            _note(result, here.get("success_result", here.get("obj"))[1],
                  result._error_callback or result._event._cond._waiters)
        except Exception:
            pass


class _Callback:
    """That of a pool's results: the pool passes over a KeyError that it raises, and the result never comes."""

    def __set__(self, result, callback):
        def call(value):
            try:
                callback(value)
            except KeyError as error:
                tell_end("thread", error, wanted="callback")
                raise

        result.__dict__["_callback"] = callback and call


def hook_pool(module):
    _watch(module.ApplyResult, "get", "successful")
    module.ApplyResult._success = _Success()
    module.ApplyResult._callback = _Callback()


def hook_futures(module):
    _watch(module.Future, "result", "exception", "add_done_callback")
    call_before(module.Future, "set_exception", lambda future, error: _note(
        future, error, future._done_callbacks or future._condition._waiters))


_in_words = None  # those told of; None: nothing is hooked


def _before_words(_self, kind, error, *_, **__):
    if not isinstance(error, Exception) or len(_in_words) >= _MOST_IN_WORDS:
        return
    key = kind.__name__, Trace(error).raised_in()
    keep_room()
    if key not in _in_words:
        _in_words.add(key)
        tell("put-in-words", message=describe(error), type=key[0], raised_in=key[1], chain=causes_of(error), **users_place(entries_of(error)))


def watch_words(module):
    """In a child."""
    global _in_words
    if _in_words is None:
        call_before(module.TracebackException, "__init__", _before_words)
    _in_words = set()
