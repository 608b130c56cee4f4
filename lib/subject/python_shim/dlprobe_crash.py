"""Where a process of the program stands when its own code crashes: CPython's faulthandler writes it, into a file beside this one
that dlprobe reads when the process has ended. Nothing is done where the program uses faulthandler itself.
"""
import faulthandler
import os
import sys
from _signal import SIG_DFL, SIGTERM, getsignal
from fcntl import F_DUPFD_CLOEXEC, fcntl

import dlprobe_start
from dlprobe_hooks import call_before
from dlprobe_start import FOLDER, learn_own_start, soft_limit, tell

_LOWEST = 250  # of its descriptor: no program counts on this number, and the kernel's table of them stays small
_FEWEST = 2 * _LOWEST  # that a process must be allowed: else each one counts

_is_users = False  # whether the program uses it
_file = None  # its number, and what it is


def _path():
    return os.path.join(FOLDER, "crash-%d" % os.getpid())


def _identity(number):
    status = os.fstat(number)
    return number, status.st_dev, status.st_ino


def _close():
    """Unless the program has closed it and opened something else by that number."""
    global _file
    known, _file = _file, None
    try:
        if known is not None and known == _identity(known[0]):
            os.close(known[0])
    except OSError:
        pass


def _open():
    global _file
    _close()
    learn_own_start()
    opened = os.open(_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(opened, b"%d %d\n" % dlprobe_start._own_ticks)
        _file = _identity(fcntl(opened, F_DUPFD_CLOEXEC, _LOWEST))
    finally:
        os.close(opened)


def _note_users(*_, **__):
    global _is_users
    _is_users = True


def watch(set_handlers=None):
    """In a process, before its work. `set_handlers`: sets those of torch's, which are called in turn."""
    is_first = _file is None
    if _is_users or (is_first and faulthandler.is_enabled()) or (soft_limit("SC_OPEN_MAX") or _FEWEST) < _FEWEST:
        return
    if set_handlers is None and getsignal(SIGTERM) != SIG_DFL:
        return  # who catches that, too, would look like a worker of torch
    if is_first or set_handlers is None:
        try:
            _open()
        except OSError:
            faulthandler.disable()  # it would write by the number that the parent's file had
            raise
    if set_handlers is not None:
        faulthandler.disable()
        set_handlers()
    _enable(file=_file[0])


def watch_worker_of_torch():
    """Its handlers stand by now."""
    watch(getattr(sys.modules["torch.utils.data._utils.signal_handling"], "_set_worker_signal_handlers"))


def forget():
    """In a child that has ended its work."""
    if _file is not None:
        os.unlink(_path())


def hook_copy(module):
    """`module`: util of the package "multiprocess", which is a copy of multiprocessing."""
    call_before(module, "_run_after_forkers", watch)
    call_before(module, "_exit_function", lambda *_: forget() if sys._getframe(2).f_code.co_name == "_bootstrap" else None)


_enable = faulthandler.enable
call_before(faulthandler, "enable", _note_users)


def watch_codes(module, noticed):
    """Whether the program asks for the exit code of a child, where that is not 0."""
    def notice(process, frame):
        code = process and process._popen.poll()
        if code and not frame.f_globals["__name__"].startswith("multiprocessing.") and process.pid not in told:
            told.add(process.pid)
            tell("code-read", child=process.pid)

    told = set()
    module.BaseProcess.exitcode = noticed(vars(module.BaseProcess)["exitcode"], notice)
