"""What was over by the time of an exception: a block or a lock that was removed, an executor or an interpreter that was shut down.
And what was in another place than it should be: a module, an object, a process."""
import atexit
import os
import sys
import time
from itertools import islice

from dlprobe_hooks import call_before
from dlprobe_limits import locked_file
from dlprobe_start import FOLDER, STARTED_AT, now, open_log, stat_of
from dlprobe_trace import is_users_file, users_place

_LONGEST_COMMAND = 100
_LONGEST_KEY = 40
_MOST_KEYS = 8
_COLLATE = "torch/utils/data/_utils/collate.py"


def _own_description():
    """Its number, since when it can have made something by the clock of files, and its command."""
    process = os.getpid()
    began = time.time() - now() / 1e9 + int(stat_of(process)[19]) / float(os.sysconf("SC_CLK_TCK"))
    with open("/proc/self/cmdline", "rb") as line:
        words = line.read().decode("utf-8", "replace").rstrip("\0").split("\0")
    command = "\0".join(words[:2] if "-c" in words[:2] else words)[:_LONGEST_COMMAND].replace("\n", " ")
    return "%d %.3f %s" % (process, max(began, STARTED_AT), command)


def _append(name, line):
    log = open_log(name)
    try:
        os.write(log, (line + "\n").encode("utf-8", "replace"))
    finally:
        os.close(log)


def _lines_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8", newline="\n") as lines:
        return [line.rstrip("\n").split(" ", 1) for line in lines]


def note_tracker(module):
    """In a process that ends, when its tracker is about to remove what is left: that this is its tracker."""
    try:
        tracker = module._resource_tracker._pid
        if tracker is not None and int(stat_of(tracker)[1]) == os.getpid():
            _append("trackers", "%d %s" % (tracker, _own_description()))
    except Exception:
        pass


def watch_tracker(module):
    """Of a resource tracker, notes the blocks that it removes when the process that has started it has ended, and which had been
    there before that process: it only attached to them."""
    atexit.register(note_tracker, module)

    def note(name):
        served = dict(_lines_of("trackers"))[str(os.getpid())]
        # A write to a mapped file of a tmpfs does not change its times, which are some milliseconds too early.
        if os.stat("/dev/shm/" + name.lstrip("/")).st_ctime < float(served.split(" ", 2)[1]) - 0.005:
            _append("removed", "%s %s" % (name.lstrip("/"), served))

    def before_main(*_):
        remove = module._CLEANUP_FUNCS["shared_memory"]

        def remove_noted(name):
            try:
                note(name)
            except Exception:
                pass
            return remove(name)

        module._CLEANUP_FUNCS["shared_memory"] = remove_noted

    call_before(module, "main", before_main)


def removed(trace):
    """Of a block that is gone: the process whose tracker has removed it. Of a lock that a spawned process was sent: that it is."""
    if trace.is_raised_in("multiprocessing/synchronize.py", "__setstate__"):
        return {"wanted": "lock"}
    name = getattr(trace.error, "filename", None)
    if not name or not trace.is_raised_in("multiprocessing/shared_memory.py", "__init__", "unlink"):
        return {}
    served = dict(_lines_of("removed")).get(name.lstrip("/"))
    if served is None:
        return {}
    process, _began, command = served.split(" ", 2)
    return {"wanted": "tracker", "child": int(process), "path": command}


def shut_down(trace, is_interpreter):
    """Of work that comes too late: whether the interpreter or what it is given to was shut down."""
    submits = [trace.is_raised_in("concurrent/futures/%s.py" % each, "submit") for each in ("thread", "process")]
    if any(submits):
        module = trace.entries[-1][0].f_globals
        is_interpreter = is_interpreter or module.get("_shutdown") is True or module.get("_global_shutdown") is True
        return {"wanted": "interpreter" if is_interpreter else "executor"}
    if trace.is_raised_in("multiprocessing/pool.py", "_check_running"):
        return {"wanted": "executor"}
    starts = trace.is_raised_in("/threading.py", "start") or trace.is_raised_in("multiprocessing/popen_fork.py", "_launch") \
        or trace.is_raised_in("multiprocessing/util.py", "spawnv_passfds")
    return {"wanted": "interpreter"} if starts and is_interpreter else {}


def asked_nobody(trace):
    """Of a child that wanted a word of the user (input(), pdb): whether its standard input is the empty one of multiprocessing."""
    has_read = isinstance(trace.error, EOFError) and users_place(trace.entries[-1:])
    if not has_read and type(trace.error).__name__ != "BdbQuit":
        return {}
    return {"wanted": "stdin"} if os.fstat(sys.stdin.fileno()).st_rdev == os.stat(os.devnull).st_rdev else {}


def _text_in_library(module):
    folder = os.path.dirname(os.__file__)
    for file in (module + ".py", os.path.join(module, "__init__.py")):
        if os.path.exists(os.path.join(folder, file)):
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                return text.read()
    return ""


def _hidden_module(error):
    """The program's own module of a name that the standard library has one of, which lacks what was asked for."""
    is_import = isinstance(error, ImportError)
    asked = getattr(error, "name_from" if is_import else "name", None)  # CPython 3.12, 3.10
    module = sys.modules.get(error.name) if is_import else getattr(error, "obj", None)
    name, file = getattr(module, "__name__", None), getattr(module, "__file__", None)
    if type(module) is not type(sys) or name not in getattr(sys, "stdlib_module_names", ()) or not file or not is_users_file(file):
        return {}
    text = _text_in_library(name)
    is_there = asked and any(each % asked in text for each in ("def %s(", "class %s", "'%s'", '"%s"', "\n%s ="))
    return {"wanted": "module", "path": os.path.abspath(file)} if is_there else {}


def _made_by_parent(trace):
    """Of a library that asked which process this is: whether its object has kept the number of the one that was forked."""
    frame = trace.entries[-1][0] if trace.entries else None
    if frame is None or "getpid" not in frame.f_code.co_names or "-packages/" not in frame.f_code.co_filename:
        return {}
    parent, known = os.getppid(), getattr(frame.f_locals.get("self"), "__dict__", {})
    return {"wanted": "creator", "child": parent} if parent in [each for each in known.values() if type(each) is int] else {}


def misplaced(trace):
    """A module that hides one of the standard library's; an object of a library in a copy of the process that made it."""
    return _hidden_module(trace.error) if isinstance(trace.error, (AttributeError, ImportError)) else _made_by_parent(trace)


def _kind_of(value):
    """The shape of a tensor or array, the keys of a dictionary, the length of a list; else the type."""
    kind = type(value)
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if kind is torch.Tensor or (numpy is not None and kind is numpy.ndarray):
        return str(list(value.shape))
    if kind is dict:
        return "{%s}" % ", ".join([repr(key)[:_LONGEST_KEY] for key in islice(value, _MOST_KEYS) if type(key) in (str, int)])
    return "%d items" % len(value) if kind in (list, tuple) else kind.__name__


def unlike(trace):
    """Of samples of which torch could make no batch: the first one, and the first that is of another kind, if there is one."""
    if not trace.entries or not trace.entries[-1][0].f_code.co_filename.endswith(_COLLATE):
        return {}
    batches = [frame.f_locals.get("batch") for frame, _line in trace.entries if frame.f_code.co_filename.endswith(_COLLATE)]
    batch = next((each for each in reversed(batches) if type(each) in (list, tuple) and each), ())
    kinds = [_kind_of(each) for each in batch]
    fetch = trace.frame_of("torch/utils/data/_utils/fetch.py", "fetch")
    indices = fetch.f_locals.get("possibly_batched_index") if fetch is not None else None
    if type(indices) is not list or len(indices) != len(kinds) or any(type(each) is not int for each in indices):
        indices = range(len(kinds))
    other = next((at for at, kind in enumerate(kinds) if kind != kinds[0]), 0)
    return {"wanted": "alike" if other else "batch", "path": "; ".join("sample %d: %s" % (indices[at], kinds[at]) for at in sorted({0, other}) if kinds)}


def otherwise_wrong(trace, is_child):
    return locked_file(trace) or (asked_nobody(trace) if is_child else {}) or misplaced(trace) or unlike(trace)


def daemonic_elsewhere(trace):
    """Of a start of a process that another one refused, which has handed on the exception with lines but no variables."""
    import linecache
    frame, line = trace.entries[-1]
    is_start = isinstance(trace.error, AssertionError) and trace.is_raised_in("multiprocessing/process.py", "start")
    if not is_start or "daemon" not in linecache.getline(frame.f_code.co_filename, line):
        return None
    return dict(users_place(trace.entries), cause="daemonic", wanted="elsewhere")
