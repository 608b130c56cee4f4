"""What dlprobe hooks in the modules with which a program starts processes (see dlprobe_start.py, which loads this).

Sets what `options` asks for and tells dlprobe which processes multiprocessing starts and why it refuses to.
"""
import os
import sys
import time
from _thread import get_ident

from dlprobe_start import FOLDER, HAS_AUDIT, START_FOLDER, describe, open_log, options, pace, tell

_SEARCH_SECONDS = 2.0  # for what cannot be pickled
_MOST_TASKS_TOLD = 3  # of one process
_MAIN_NAMES = ("__main__", "__mp_main__")
_LIBRARY_FOLDERS = tuple(
    os.path.join(folder, "") for folder in {os.path.dirname(os.__file__), os.path.realpath(os.path.dirname(os.__file__)),
                                            FOLDER})


# ---- the user's own line


def _absolute(name):
    return name if name.startswith("<") else os.path.normpath(os.path.join(START_FOLDER, name))


def _is_users(frame):
    if frame.f_globals.get("__name__") in _MAIN_NAMES and frame.f_globals.get("__file__") == frame.f_code.co_filename:
        return True
    name = frame.f_code.co_filename
    if name.startswith("<"):
        return name == "<string>" or name == "<stdin>" or name.startswith("<ipython")
    if "/site-packages/" in name or "/dist-packages/" in name:
        return False
    return not _absolute(name).startswith(_LIBRARY_FOLDERS)


def _users_line(frame, at_module_level=False):
    """file, line, function and whether it is the main module's, of the innermost frame of the user's own."""
    while frame is not None:
        function = frame.f_code.co_name
        if _is_users(frame) and (not at_module_level or function == "<module>"):
            return {"file": _absolute(frame.f_code.co_filename), "line": frame.f_lineno,
                    "function": getattr(frame.f_code, "co_qualname", function),
                    "main": frame.f_globals.get("__name__") in _MAIN_NAMES}
        frame = frame.f_back
    return {}


# ---- what cannot be pickled


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
    return {"file": _absolute(code.co_filename), "line": code.co_firstlineno, "function": getattr(thing, "__qualname__", "")}


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
            except Exception:
                found[:] = list(chain)
                raise _Found
            chain.pop()
            return None

    try:
        Searching(Nowhere, 4).save(root)
    except _Found:
        pass
    except Exception:
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


def _tell_unpicklable(process, error, method):
    fields = {}
    try:
        parts = _named_arguments(process) if type(process).run.__module__ == "multiprocessing.process" else {}
        # An own subclass is sent with all that it has.
        parts.update((key, value) for key, value in vars(process).items() if not key.startswith("_") or not parts)
        for name, value in parts.items():
            chain = _find_unpicklable(value)
            if chain is None:
                continue
            culprit = chain[-1]
            fields = {"path": name + _path_of(chain), "type": _kind_of(culprit)}
            fields.update(_definition_line(culprit) or _definition_line(type(culprit)))
            break
    except Exception:
        pass
    tell("refused", cause="unpicklable", message=describe(error), method=method, **fields)


# ---- multiprocessing


def _passes(error, file_end, function):
    """Whether the error came through that function of the standard library."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == function and code.co_filename.endswith(file_end):
            return True
        trace = trace.tb_next
    return False


def _method_of(process):
    method = getattr(process, "_start_method", None)
    if method is None:
        from multiprocessing import context
        method = context._default_context.get_start_method()
    return method


def _is_importing_main():
    from multiprocessing import process
    return bool(getattr(process.current_process(), "_inheriting", False))


def _tell_refused(process, error, method, frame):
    if _is_importing_main() and _passes(error, "multiprocessing/spawn.py", "_check_not_importing_main"):
        tell("refused", cause="bootstrapping", message=type(error).__name__, method=method,
             **(_users_line(frame, at_module_level=True) or _users_line(frame)))
    elif isinstance(error, AssertionError) and _is_daemon():
        tell("refused", cause="daemonic", message=describe(error), method=method, **_users_line(frame))
    elif _passes(error, "multiprocessing/reduction.py", "dump"):
        _tell_unpicklable(process, error, method)
    else:
        tell("refused", cause="other", message=describe(error), method=method, **_users_line(frame))


def _is_daemon():
    from multiprocessing import process
    return bool(process.current_process()._config.get("daemon"))


def _tell_failure():
    """At the interpreter's end: what it ended by, if by an exception. One that came from a child names what that lacked."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return
    kind = type(error).__name__
    text = ([line.strip() for line in str(error).splitlines() if line.strip()] or [""])[-1]  # of a child's traceback: its last
    name = None
    if isinstance(error, NameError):
        quoted = text.split("'")
        name = getattr(error, "name", None) or (quoted[1] if len(quoted) == 3 else None)  # CPython 3.10 has it
    tell("failed", message=text if text.startswith(kind + ":") else "%s: %s" % (kind, text) if text else kind,
         path=name if name in vars(sys.modules["__main__"]) else None)


def _hook_process(module):
    import atexit
    atexit.register(_tell_failure)
    original = module.BaseProcess.start

    def start(self):
        method = None
        try:
            method = _method_of(self)
        except Exception:
            pass
        if method != "fork" or not HAS_AUDIT:
            pace()
        try:
            result = original(self)
        except Exception as error:
            try:
                _tell_refused(self, error, method, sys._getframe(1))
            except Exception:
                pass
            raise
        tell("started", method=method, child=self.pid, **_users_line(sys._getframe(1)))
        return result

    start.__doc__ = original.__doc__
    module.BaseProcess.start = start


def _hook_context(module):
    method = options.get("start_method")
    forced = options.get("force") == "1"
    contexts = module._concrete_contexts
    default = module._default_context
    if method in contexts:
        default._default_context = contexts[method]
    first_set = []

    def chosen(wanted, frame):
        """What a script that names a start method gets. Calls of the standard library are left alone."""
        if wanted is None or method is None or wanted == method or wanted not in contexts:
            return wanted
        caller = frame.f_globals.get("__name__", "")
        if caller.partition(".")[0] in ("multiprocessing", "concurrent"):
            return wanted
        got = method if forced else wanted
        tell("chosen", wanted=wanted, method=got, **_users_line(frame))
        return got

    set_original = module.DefaultContext.set_start_method
    get_original = module.DefaultContext.get_context

    def set_start_method(self, method, force=False):
        frame = sys._getframe(1)
        by_user = frame.f_globals.get("__name__", "").partition(".")[0] != "multiprocessing"
        if by_user and not force and self._actual_context is not None:
            tell("refused", cause="context-set", wanted=method, method=self._actual_context._name,
                 path=first_set[0] if first_set else None, **_users_line(frame))
        elif by_user:
            line = _users_line(frame)
            first_set[:] = ["%s:%s" % (line.get("file", ""), line.get("line", ""))] if line else []
        return set_original(self, chosen(method, frame), force)

    def get_context(self, method=None):
        return get_original(self, chosen(method, sys._getframe(1)))

    module.DefaultContext.set_start_method = set_start_method
    module.DefaultContext.get_context = get_context
    # What `multiprocessing` has handed out already: bound methods of the default context.
    package = sys.modules.get("multiprocessing")
    if package is not None:
        for name in ("set_start_method", "get_context"):
            if name in vars(package):
                setattr(package, name, getattr(default, name))


def _hook_reduction(module):
    """What goes through queues: the tasks of pools, whose workers end by what they do not find."""
    pickler = module.ForkingPickler
    dumps, loads = vars(pickler)["dumps"].__func__, pickler.loads
    told = []  # a program may try what can be pickled, again and again

    def is_worth_a_word():
        told.append(None)
        return len(told) <= _MOST_TASKS_TOLD

    def telling_dumps(cls, obj, protocol=None):
        try:
            return dumps(cls, obj, protocol)
        except Exception as error:
            try:
                if is_worth_a_word():
                    chain = _find_unpicklable(obj) or [obj]
                    tell("refused", cause="unpicklable", message=describe(error), path="task" + _path_of(chain),
                         type=_kind_of(chain[-1]), **(_definition_line(chain[-1]) or _definition_line(type(chain[-1]))))
            except Exception:
                pass
            raise

    def telling_loads(*arguments, **keywords):
        try:
            return loads(*arguments, **keywords)
        except (AttributeError, ImportError) as error:
            if _is_child() and is_worth_a_word():
                tell("refused", cause="not-found-there", message=describe(error))
            raise

    pickler.dumps = classmethod(telling_dumps)
    pickler.loads = staticmethod(telling_loads)


def _hook_util(module):
    """dlprobe removes the temporary folders of processes that it ends."""
    original = module.get_temp_dir

    def get_temp_dir():
        folder = original()
        try:
            log = open_log("leftovers")
            try:
                os.write(log, os.fsencode(folder) + b"\n")
            finally:
                os.close(log)
        except Exception:
            pass
        return folder

    module.get_temp_dir = get_temp_dir


def _is_child():
    from multiprocessing import process
    return process.current_process()._parent_pid is not None


def _rss_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Imports:
    """Measures what the imports of this thread cost while it runs the main module."""

    def __init__(self):
        import builtins
        self._builtins, self._real, self._thread = builtins, builtins.__import__, get_ident()
        self._is_inside = False
        self.seconds, self.bytes = 0.0, 0

    def __call__(self, *arguments, **keywords):
        if self._is_inside or get_ident() != self._thread:
            return self._real(*arguments, **keywords)
        self._is_inside = True
        began, rss = time.monotonic(), _rss_bytes()
        try:
            return self._real(*arguments, **keywords)
        finally:
            self._is_inside = False
            self.seconds += time.monotonic() - began
            self.bytes += max(_rss_bytes() - rss, 0)

    def __enter__(self):
        self._builtins.__import__ = self
        return self

    def __exit__(self, *_error):
        if self._builtins.__import__ is self:
            self._builtins.__import__ = self._real


def _hook_spawn(module):
    def timed(original):
        def fixup(name):
            began, rss = time.monotonic(), _rss_bytes()
            with _Imports() as imports:
                try:
                    original(name)
                except BaseException as error:
                    tell("main-not-imported", message=describe(error), file=str(name))
                    raise
            tell("main-imported", file=str(name), seconds=max(time.monotonic() - began - imports.seconds, 0.0),
                 bytes=max(_rss_bytes() - rss - imports.bytes, 0))
        return fixup

    module._fixup_main_from_path = timed(module._fixup_main_from_path)
    module._fixup_main_from_name = timed(module._fixup_main_from_name)
    original_main = module._main

    def _main(*arguments):
        try:
            return original_main(*arguments)
        except (AttributeError, ImportError) as error:
            # Its unpickling: _bootstrap keeps what its work raises, and the main module's errors were told.
            if not _passes(error, "multiprocessing/spawn.py", "prepare"):
                tell("refused", cause="not-found-there", message=describe(error))
            raise

    module._main = _main


# ---- torch


def _hook_torch_multiprocessing(module):
    strategy = options.get("sharing_strategy")
    if not strategy:
        return
    original = module.set_sharing_strategy
    original(strategy)
    if options.get("force") == "1":
        module.set_sharing_strategy = lambda new_strategy: original(strategy)


def _sharing_strategy():
    module = sys.modules.get("torch.multiprocessing")
    get = getattr(module, "get_sharing_strategy", None)
    return get() if get is not None else None


def _hook_torch_cuda(module):
    original = module._lazy_init

    def _lazy_init():
        if module._is_in_bad_fork():
            tell("refused", cause="cuda-after-fork", message="CUDA was initialised before the fork",
                 **_users_line(sys._getframe(1)))
        return original()

    module._lazy_init = _lazy_init


def _changed(arguments):
    """The arguments of a DataLoader (bound, with defaults) as they were asked to be."""
    for key in ("num_workers", "prefetch_factor"):
        if options.get(key):
            arguments[key] = int(options[key])
    if arguments.get("num_workers") == 0:
        # What only loaders with workers may be given.
        arguments.update(persistent_workers=False, multiprocessing_context=None, timeout=0)
        arguments.pop("prefetch_factor", None)
    method = options.get("start_method")
    context = arguments.get("multiprocessing_context")
    if method and context is not None and options.get("force") == "1":
        arguments["multiprocessing_context"] = None
    return arguments


def _hook_data_loader(module):
    import functools
    import inspect
    original = module.DataLoader.__init__
    signature = inspect.signature(original)
    asked = bool(options.get("num_workers") or options.get("prefetch_factor") or options.get("force") == "1")

    @functools.wraps(original)
    def __init__(self, *positional, **keywords):
        if asked:
            try:
                bound = signature.bind(self, *positional, **keywords).arguments
                given = dict(list(bound.items())[1:])
                rest = given.pop("kwargs", {})
                positional, keywords = (), dict(_changed(given), **rest)
            except TypeError:
                pass  # the program's own error comes from DataLoader itself
        original(self, *positional, **keywords)
        tell("loader-made", workers=self.num_workers, prefetch_factor=self.prefetch_factor, type=_sharing_strategy(),
             **_users_line(sys._getframe(1)))

    module.DataLoader.__init__ = __init__
    _hook_batches(module._MultiProcessingDataLoaderIter, "_next_data")
    _hook_batches(module._SingleProcessDataLoaderIter, "_next_data")


def _hook_batches(iterator_class, method):
    """Tells of the first batch of each iterator, and of all of them where that is asked for."""
    first_init, original = iterator_class.__init__, getattr(iterator_class, method)
    every = 0.2 if options.get("batches") == "1" else None

    def __init__(self, *positional, **keywords):
        self._dlprobe = [time.monotonic(), 0, 0.0, 0.0]  # made at, batches, seconds waited for them, told at
        first_init(self, *positional, **keywords)

    def _next_data(self):
        began = time.monotonic()
        batch = original(self)
        own = self.__dict__.get("_dlprobe")
        if own is not None and (own[1] == 0 or every is not None):
            now = time.monotonic()
            own[1] += 1
            own[2] += now - began
            if own[1] == 1:
                tell("first-batch", seconds=now - own[0], workers=self._num_workers)
            if every is not None and now - own[3] >= every:
                own[3] = now
                tell("batches", count=own[1], seconds=own[2], workers=self._num_workers)
        return batch

    iterator_class.__init__ = __init__
    setattr(iterator_class, method, _next_data)


def _before_mpi(_module):
    tell("mpi-begins", **_users_line(sys._getframe(1)))


def _after_mpi(_module):
    tell("mpi-ready")


# ---- what is hooked when


BEFORE = {"mpi4py.MPI": _before_mpi}
AFTER = {
    "mpi4py.MPI": _after_mpi,
    "multiprocessing.process": _hook_process,
    "multiprocessing.context": _hook_context,
    "multiprocessing.spawn": _hook_spawn,
    "multiprocessing.reduction": _hook_reduction,
    "multiprocessing.util": _hook_util,
    "torch.multiprocessing": _hook_torch_multiprocessing,
    "torch.cuda": _hook_torch_cuda,
    "torch.utils.data.dataloader": _hook_data_loader,
}
