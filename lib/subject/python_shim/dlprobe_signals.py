"""Where a process sends a signal that may end another one, and where it sets a timer that may end itself: who is ended by it can
tell nothing any more (see dlprobe_hooks.py, which loads this)."""
import _signal
import os
import sys

from dlprobe_hooks import call_before
from dlprobe_start import tell
from dlprobe_trace import users_line

_ENDS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGABRT, _signal.SIGKILL, _signal.SIGTERM)
_MOST_SENT, _MOST_TIMERS = 200, 20  # that one process tells of
_ENDS_OF_TIMERS = {_signal.ITIMER_REAL: _signal.SIGALRM, _signal.ITIMER_VIRTUAL: _signal.SIGVTALRM,
                   _signal.ITIMER_PROF: _signal.SIGPROF}

_sent = []
_timers = set()  # the places, each of which is told once


def _before_kill(process, number, *_):
    if number in _ENDS and len(_sent) < _MOST_SENT:
        _sent.append(None)
        tell("signals", child=process, count=int(number), **users_line(sys._getframe(2)))


def _before_killpg(group, number, *_):
    _before_kill(-group, number)


def _note_timer(number, seconds):
    frame = sys._getframe(3)
    place = (number, frame.f_code.co_filename, frame.f_lineno)
    if seconds and place not in _timers and len(_timers) < _MOST_TIMERS:
        _timers.add(place)
        tell("signals", count=int(number), seconds=float(seconds), **users_line(frame))


def _before_alarm(seconds, *_):
    _note_timer(_signal.SIGALRM, seconds)


def _before_setitimer(which, seconds, *_):
    _note_timer(_ENDS_OF_TIMERS[which], seconds)


def begin_child():
    """In a child, which has no timer of its parent."""
    del _sent[:]
    _timers.clear()


def _wrap(module, other, name, before):
    """In the module that is written in C, and in the one that has it from there."""
    call_before(sys.modules[module], name, before)
    if other in sys.modules:  # by now
        setattr(sys.modules[other], name, getattr(sys.modules[module], name))


for _name, _before in (("kill", _before_kill), ("killpg", _before_killpg)):
    _wrap("posix", "os", _name, _before)
for _name, _before in (("alarm", _before_alarm), ("setitimer", _before_setitimer)):
    _wrap("_signal", "signal", _name, _before)
