"""dlprobe's witness: loaded by each interpreter of a command that dlprobe starts, unless --no-witness is given.

As little as an interpreter's start needs: what hooks what (dlprobe_hooks.py) is loaded when the program imports one of the
modules that are hooked. It prints nothing, keeps no descriptor, imports nothing that the interpreter has not, and no error
of its own reaches the program.
"""
import os
import sys
import time
from errno import EMFILE, ENFILE
from _thread import get_ident

FOLDER = os.path.dirname(os.path.abspath(__file__))
START_FOLDER = os.getcwd()  # what the names of files in frames are relative to
STARTED_AT = time.time()  # the program has made nothing yet
_MOST_EVENT_BYTES = 4000  # below PIPE_BUF, up to which a write to a FIFO is whole
_MOST_TEXT = 600
_USED = ("os", "posixpath", "codecs", "encodings.ascii", "fcntl", "abc", "_collections_abc", "importlib._bootstrap",
         "importlib._bootstrap_external", "multiprocessing.context", "multiprocessing.process", "torch.multiprocessing")
_OWN = ("dlprobe_batches", "dlprobe_crash", "dlprobe_data", "dlprobe_ends", "dlprobe_epochs", "dlprobe_files",
        "dlprobe_hooks", "dlprobe_limits", "dlprobe_overrides", "dlprobe_pickle", "dlprobe_queues", "dlprobe_random", "dlprobe_ranks",
        "dlprobe_results", "dlprobe_settings", "dlprobe_signals", "dlprobe_tensors", "dlprobe_trace", "dlprobe_writes")
_HOOKED = ("threading", "multiprocessing.process", "multiprocessing.context", "multiprocessing.spawn",
           "multiprocessing.forkserver", "multiprocessing.managers", "multiprocessing.util", "multiprocessing.synchronize",
           "multiprocessing.queues", "multiprocessing.pool", "multiprocessing.resource_tracker", "concurrent.futures._base",
           "concurrent.futures.process", "joblib.externals.loky.process_executor", "loky.process_executor", "mpi4py.MPI",
           "multiprocess.process", "multiprocess.util", "torch._utils", "torch.distributed.distributed_c10d", "torch.distributed.rendezvous",
           "torch.multiprocessing", "torch.multiprocessing.reductions", "torch.nn.parallel.distributed", "torch.utils.data.dataloader")
if sys.version_info >= (3, 13):  # where multiprocessing tells by it alone what ended a child
    _HOOKED += ("traceback",)


options = {}


def _read_options():
    with open(os.path.join(FOLDER, "options")) as lines:
        for line in lines:
            key, _, value = line.rstrip("\n").partition("=")
            options[key] = value


# ---- events


def _json_text(text):
    parts = []
    for char in text[:_MOST_TEXT]:
        code = ord(char)
        if 0x20 <= code < 0x7F and char not in '"\\':
            parts.append(char)
        elif code < 0x10000:
            parts.append("\\u%04x" % code)
        else:
            parts.append("\\u%04x\\u%04x" % (0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code & 0x3FF)))
    return '"' + "".join(parts) + '"'


def _json(value):
    if isinstance(value, list):
        return "[%s]" % ",".join(_json(each) for each in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(value)
    return _json_text(str(value))


def _json_line(fields):
    return "{%s}\n" % ",".join('"%s":%s' % (key, _json(value)) for key, value in fields.items() if value is not None)


def stat_of(process):
    """The fields of proc(5) from the third on."""
    with open("/proc/%s/stat" % process, "rb") as stat:
        return stat.read().rpartition(b")")[2].split()


_own_ticks = (0, 0)  # pid, its start time
_notes = 0


def _send(line):
    """Into the FIFO that dlprobe reads. A process that has no descriptor left leaves a symbolic link, which needs none."""
    global _notes
    try:
        fifo = os.open(os.path.join(FOLDER, "events"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (EMFILE, ENFILE):
            raise
        _notes += 1
        os.symlink(line, os.path.join(FOLDER, "note-%d-%d" % (os.getpid(), _notes)))
        return
    try:
        os.write(fifo, line.encode("ascii"))
    finally:
        os.close(fifo)


def learn_own_start():
    """Of a process that may have no descriptor left when it has something to tell."""
    global _own_ticks
    if _own_ticks[0] != os.getpid():
        _own_ticks = (os.getpid(), int(stat_of("self")[19]))


def pass_on(error):
    """Raises again what is none of these modules' doing: a signal came meanwhile, and its handler raised it."""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if not name.startswith("dlprobe_") and name not in _USED:
            raise error
        trace = trace.tb_next


def now():
    """By the clock of dlprobe's recordings, in ns."""
    return int(time.clock_gettime(7) * 1e9)  # CLOCK_BOOTTIME, linux/time.h


def tell(kind, **fields):
    """Sends an event to dlprobe, if it still listens."""
    try:
        learn_own_start()
        pid = os.getpid()
        fields.update(kind=kind, at=now(), pid=pid, start_ticks=_own_ticks[1])
        line = _json_line(fields)
        if len(line) > _MOST_EVENT_BYTES:
            fields.pop("chain", None)
            for key in ("message", "path", "function", "raised_in", "shared"):
                if fields.get(key) is not None:
                    fields[key] = str(fields[key])[:100]
            line = _json_line(fields)
        _send(line)
    except Exception as error:
        pass_on(error)


def describe(error):
    """Its type and its text."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__", "__mp_main__") else \
        "%s.%s" % (kind.__module__, kind.__qualname__)
    text = str(error)
    if len(text) > _MOST_TEXT - 100:  # the last line of a traceback is the best of it
        text = text[:_MOST_TEXT // 2 - 100] + " ... " + text[-_MOST_TEXT // 2 + 50:]
    return "%s: %s" % (name, text) if text else name


def open_log(name):
    """A file beside this one that all processes of the command append to. To be closed."""
    return os.open(os.path.join(FOLDER, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


# ---- that dlprobe sees a tree grow in time

_SECONDS_BETWEEN_STARTS = 0.02
_STARTS = ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen")


def pace():
    """Before a process is started: past so many, all processes of the command start others one after another."""
    if "paced_after" not in options:
        return
    try:
        log = open_log("starts")
        try:
            os.write(log, b".")
            if os.fstat(log).st_size > int(options["paced_after"]):
                from fcntl import LOCK_EX, lockf
                lockf(log, LOCK_EX)  # until it is closed; a process that was forked meanwhile does not have it
                time.sleep(_SECONDS_BETWEEN_STARTS)
        finally:
            os.close(log)
    except Exception:
        pass


def _audit(event, _arguments):
    if event in _STARTS:
        pace()


HAS_AUDIT = hasattr(sys, "addaudithook")  # CPython 3.8


# ---- when the program imports what is hooked


def _hide(code, name):
    """Gives code no file: what is measured or traced in a program (coverage, pdb) are files of its own."""
    import _imp  # as each interpreter has it; it names the source where compiled code was moved
    _imp._fix_co_filename(code, "<%s>" % name)


def _hide_code_of(loader, name):
    get_code = loader.get_code

    def get_hidden_code(fullname):
        code = get_code(fullname)
        _hide(code, name)
        return code

    loader.get_code = get_hidden_code


def _hide_own_code():
    """Of this module, which is imported as any other."""
    for thing in list(globals().values()):
        for each in [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]:
            code = getattr(each, "__code__", None)
            if code is not None and each.__module__ == __name__:
                _hide(code, __name__)
    for code in _call_around.__code__.co_consts:
        if getattr(code, "co_name", "") == "exec_module":
            # CPython takes its own frames of an import out of a traceback by this name.
            import _imp
            _imp._fix_co_filename(code, "<frozen importlib._bootstrap>")


class _Finder:
    """Calls the hook of a module when the program has imported it. The module, its loader and its spec stay what they are."""

    def __init__(self):
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        if name in _OWN:
            path = [FOLDER]
        elif name not in _HOOKED:
            return None
        key = (name, get_ident())
        if key in self._busy:
            return None
        self._busy.add(key)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if finder is not self and find else None
                if spec is not None:
                    if name in _OWN:
                        _hide_code_of(spec.loader, name)
                    else:
                        _call_around(spec.loader)
                    return spec
            return None
        finally:
            self._busy.discard(key)


def soft_limit(name):
    """Asked without a descriptor, which there may be none of; None: no limit."""
    limit = os.sysconf(name)
    return limit if limit >= 0 else None


def load(name):
    """One of these modules; see sitecustomize.py for where it is compiled to."""
    settings = sys.dont_write_bytecode, getattr(sys, "pycache_prefix", None)
    try:
        sys.dont_write_bytecode, sys.pycache_prefix = False, None
        return __import__(name)
    finally:
        sys.dont_write_bytecode, sys.pycache_prefix = settings


def _run_hook(which, module):
    try:
        dlprobe_hooks = load("dlprobe_hooks")
        for hook in getattr(dlprobe_hooks, which).get(module.__name__, ()):
            hook(module)
    except Exception as error:
        tell("hook-failed", message="%s: %s" % (module.__name__, describe(error)))


def _call_around(loader):
    original = getattr(loader, "exec_module", None)
    if original is None or isinstance(loader, type):
        return

    def exec_module(module):
        del loader.exec_module
        _run_hook("BEFORE", module)
        original(module)
        _run_hook("AFTER", module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass


def _at_exit():
    """For a program that has no threads: those that have are asked before (see dlprobe_hooks.py)."""
    error = getattr(sys, "last_value", None)
    try:
        if error is not None:
            load("dlprobe_hooks").tell_end_of_main()
    except OSError:  # no descriptor is left to load it by
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = {} if trace is None else {"file": os.path.join(START_FOLDER, trace.tb_frame.f_code.co_filename),
                                          "line": trace.tb_lineno, "function": trace.tb_frame.f_code.co_name}
        tell("failed", ended="process", message=describe(error), type=type(error).__name__,
             error_number=getattr(error, "errno", None), limit=os.sysconf("SC_OPEN_MAX"), **place)
    except Exception:
        pass


def install():
    import atexit
    try:
        _hide_own_code()
    except Exception:
        pass
    _read_options()
    if HAS_AUDIT and "paced_after" in options:
        sys.addaudithook(_audit)
    atexit.register(_at_exit)
    sys.meta_path.insert(0, _Finder())
    for name in _HOOKED:  # by a .pth file
        if name in sys.modules:
            _run_hook("AFTER", sys.modules[name])
    tell("interpreter", type="%d.%d.%d" % sys.version_info[:3], file=sys.executable or "")
