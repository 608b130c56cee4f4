"""Results of pools and executors that are exceptions, and that nobody asked for until they were freed or the program ended: the
work was lost in silence. Nothing is done for a result of a task that works.
"""
import atexit
import os
import sys
from functools import partial

from dlprobe_hooks import Noticed, call_before
from dlprobe_start import describe, tell
from dlprobe_trace import entries_of, users_place

_owner = os.getpid()
_MOST_KEPT = 64
_told = set()  # of each place once
_failed = {}  # by its address: a weak reference to the result, its exception, and how that was raised by then
_asked = sys.modules["weakref"].WeakSet()  # before they came


def _is_freed(address, _reference=None):
    try:
        _reference, error, trace = _failed.pop(address)
        is_raised_again = error.__traceback__ is not trace  # to who asked
        if not is_raised_again and os.getpid() == _owner:
            _tell(error)
    except Exception:
        pass


def _key_of(error):
    return type(error), _place_of(error).get("line")


def _tell(error):
    if _key_of(error) not in _told:
        _told.add(_key_of(error))
        tell("result-lost", message=describe(error), type=type(error).__name__,
             again=type(error).__name__ if _is_remote(error) else None, **_place_of(error))


def _place_of(error):
    return users_place(entries_of(error))


def _is_remote(error):
    return type(error.__cause__).__name__.endswith("RemoteTraceback") or not entries_of(error)


def _note(result, error, waiters):
    if waiters or result in _asked or not isinstance(error, Exception) or len(_failed) >= _MOST_KEPT or _key_of(error) in _told:
        return
    if _is_remote(error) or _place_of(error):
        reference = sys.modules["weakref"].ref(result, partial(_is_freed, id(result)))
        _failed[id(result)] = reference, error, error.__traceback__


def _ask(result, _frame):
    _failed.pop(id(result), None)
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
        try:
            return result.__dict__["_success"]
        except (AttributeError, KeyError):
            raise AttributeError("_success")

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


def hook_pool(module):
    _watch(module.ApplyResult, "successful")
    module.ApplyResult._success = _Success()


def hook_futures(module):
    _watch(module.Future, "exception", "add_done_callback")
    call_before(module.Future, "set_exception", lambda future, error: _note(
        future, error, future._done_callbacks or future._condition._waiters))
