"""Where in a program an exception or a call came through, and which line of that is the user's own."""
import builtins
import os
import sys
from errno import ENOMEM

from dlprobe_start import FOLDER, START_FOLDER, describe

_MOST_CAUSES = 4  # of an exception's chain
_MOST_OF_CAUSE = 300  # characters, so that its place is not cut off
_STARTS_A_CHILD = {"multiprocessing.forkserver", "multiprocessing.spawn"}
MAIN_NAMES = ("__main__", "__mp_main__")
POOLS = ("multiprocessing.pool", "concurrent.futures.process", "loky.process_executor")
_LIBRARY_FOLDERS = tuple(
    os.path.join(folder, "") for folder in {os.path.dirname(os.__file__), os.path.realpath(os.path.dirname(os.__file__)),
                                            FOLDER})
# Bytes of the address space, of which no page is taken: where an exception may say that there is no memory left, they are freed
# for what is to be told of it.
_room = [bytes(4 << 20)]


def keep_room():
    """Again, after that: the next one may be about memory, too."""
    try:
        if not _room:
            _room.append(bytes(4 << 20))
    except MemoryError:
        pass


def absolute(name):
    return name if name.startswith("<") else os.path.normpath(os.path.join(START_FOLDER, name))


def is_users_file(name):
    if name.startswith("<"):
        return name in ("<string>", "<stdin>", "<dynamic-code>") or name.startswith("<ipython")  # the third: by cloudpickle
    file = absolute(name)
    return not ("/site-packages/" in file or "/dist-packages/" in file or file.startswith(_LIBRARY_FOLDERS))


def _is_users(frame):
    if frame.f_globals.get("__name__") in MAIN_NAMES and frame.f_globals.get("__file__") == frame.f_code.co_filename:
        return True
    name, module = frame.f_code.co_filename, frame.f_globals.get("__file__")
    if name == "<string>" and ("__name__" not in frame.f_globals or not _STARTS_A_CHILD.isdisjoint(frame.f_code.co_names)):
        return False  # a method of a manager's proxy, or multiprocessing's own "python -c"
    # Of Cython's code the file is one of where it was built.
    return is_users_file(name) and (name.startswith("<") or not module or is_users_file(module))


def _place(frame, line):
    return {"file": absolute(frame.f_code.co_filename), "line": line,
            "function": getattr(frame.f_code, "co_qualname", frame.f_code.co_name),
            "main": frame.f_globals.get("__name__") in MAIN_NAMES}


def calls_to(frame):
    """The frames and lines of the calls that led to `frame`, the innermost last."""
    entries = []
    while frame is not None:
        entries.append((frame, frame.f_lineno))
        frame = frame.f_back
    return entries[::-1]


def entries_of(error):
    """Those through which an exception came, without the witness's own around sys.exit."""
    entries, trace = [], error.__traceback__
    while trace is not None and len(entries) < 10000:
        if not trace.tb_frame.f_code.co_filename.startswith("<dlprobe_"):
            entries.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return entries


def users_place(entries, at_module_level=False):
    """file, line, function and whether it is the main module's, of the innermost frame of the user's own."""
    for frame, line in reversed(entries):
        if _is_users(frame) and (not at_module_level or frame.f_code.co_name == "<module>"):
            return _place(frame, line)
    return {}


def users_place_in_words(entries):
    place = users_place(entries)
    return "%(file)s:%(line)d in %(function)s" % place if place else None


def place_of_code(code, name):
    is_users = code is not None and is_users_file(code.co_filename)
    return {"file": absolute(code.co_filename), "line": code.co_firstlineno, "function": name} if is_users else {}


def users_line(frame):
    return users_place(calls_to(frame))


def users_call(entries):
    """The call by which a library came to the user's code, "decode('a.jpg', ...)": of what is plain the value, as it is by now."""
    for frame, _line in entries:
        if _is_users(frame):
            code = frame.f_code
            values = [frame.f_locals.get(name) for name in code.co_varnames[:code.co_argcount]]
            shown = [repr(value)[:60] if type(value) in (int, float, str, bytes, bool) else "..." for value in values]
            return "%s(%s)" % (code.co_name, ", ".join(shown))
    return None


def missing_name(error):
    """Of a NameError the name, if the main module has it: a forked process would have it, too."""
    if not isinstance(error, NameError):
        return None
    quoted = str(error).split("'")
    name = getattr(error, "name", None) or (quoted[1] if len(quoted) == 3 else None)  # CPython 3.10 has it
    return name if name in vars(sys.modules["__main__"]) else None


def missing_guard(frame):
    """Of what is done while the main module runs: "guard" where that asks for its name nowhere."""
    main = vars(sys.modules["__main__"])
    while frame is not None and not (frame.f_globals is main and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    return None if frame is None or "__name__" in frame.f_code.co_names else "guard"


def chain_of(error, also_hidden=False):
    """It, and what it was raised from or while handling; also where that was not to be shown ("from None")."""
    chain = []
    while error is not None and len(chain) <= _MOST_CAUSES and all(each is not error for each in chain):
        chain.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ and not also_hidden else error.__context__)
    return chain


def _in_words(error):
    place = users_place_in_words(entries_of(error))
    return describe(error)[:_MOST_OF_CAUSE] + (" at " + place if place else "")


def causes_of(error):
    """Each with the user's own line. What was only being handled when the next one was raised says so: it is no cause."""
    chain = chain_of(error)
    return [("" if raised.__cause__ is each else "while handling ") + _in_words(each) for raised, each in zip(chain, chain[1:])]


def handled_in_words(error):
    """What is being handled where a program leaves, and what that came from."""
    return ["while handling " + _in_words(error)] + causes_of(error) if isinstance(error, Exception) else None


def first_of_group(error):
    """Of an ExceptionGroup, as asyncio.TaskGroup raises one, the first that it is made of (CPython 3.11)."""
    while isinstance(error, getattr(builtins, "BaseExceptionGroup", ())):
        error = error.exceptions[0]
    return error


class Trace:
    """The way of an exception through the standard library and torch."""

    def __init__(self, error, caller=None):
        """`caller`: of who handles it, where the program has not; the way so far is that of the calls."""
        is_of_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == ENOMEM
        if is_of_memory or type(error) is RuntimeError:  # as torch's allocator raises
            _room.clear()
        self.error, self.entries = error, calls_to(caller) + entries_of(error)

    def frame_of(self, file_end, *functions):
        for frame, _line in self.entries:
            if frame.f_code.co_name in functions and frame.f_code.co_filename.endswith(file_end):
                return frame
        return None

    def is_raised_in(self, file_end, *functions):
        code = self.entries[-1][0].f_code if self.entries else None
        return code is not None and code.co_name in functions and code.co_filename.endswith(file_end)

    def lost_descriptor(self):
        """Whether the kernel had no place for a descriptor that came with a message, and cut that short: unix(7), SCM_RIGHTS."""
        if type(self.error) is not RuntimeError or not self.is_raised_in("multiprocessing/reduction.py", "recvfds"):
            return False
        received = self.entries[-1][0].f_locals
        return received.get("ancdata") == [] and bool(received.get("flags", 0) & sys.modules["socket"].MSG_CTRUNC)

    def raised_in(self):
        if not self.entries:
            return ""
        frame, line = self.entries[-1]
        return "%s:%d %s" % (absolute(frame.f_code.co_filename), line, frame.f_code.co_name)


def is_in_worker_of_loader():
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None


def task_at(entries):
    """Of a process of a pool or an executor, what it says of itself while it is at work on a task there."""
    for frame, _line in entries:
        name = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name in ("worker", "_process_worker") and name.endswith(POOLS):
            return {"ended": "task", "wanted": "pool" if "func" in frame.f_locals and name == "multiprocessing.pool" else None}
    return {}
