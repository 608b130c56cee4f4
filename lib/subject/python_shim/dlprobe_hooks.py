"""What dlprobe hooks in the modules that start processes and threads (see dlprobe_start.py, which loads this).

An exception is looked at where it ended something: the program, a thread, a child, a task, a DataLoader's worker. What is hooked
for that is called by the library while it handles the exception, so that no frame of ours stands in a traceback and nothing is
done where nothing failed. What an override needs is hooked only where one is asked for.
"""
import os
import sys
import time
from _thread import get_ident

from dlprobe_start import FOLDER, HAS_AUDIT, START_FOLDER, describe, learn_own_start, open_log, options, pace, tell

_SEARCH_SECONDS = 2.0  # for what cannot be pickled
_MOST_ENDS_TOLD = 20  # of one process, each place once
_MOST_CAUSES = 4  # of an exception's chain
_IS_TRIAL = "paced_after" in options
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
            return _place(frame, frame.f_lineno)
        frame = frame.f_back
    return {}


def _entries(error):
    """The frames and lines through which an exception came, the innermost last."""
    entries, trace = [], error.__traceback__
    while trace is not None and len(entries) < 10000:
        entries.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return entries


def _place(frame, line):
    return {"file": _absolute(frame.f_code.co_filename), "line": line,
            "function": getattr(frame.f_code, "co_qualname", frame.f_code.co_name),
            "main": frame.f_globals.get("__name__") in _MAIN_NAMES}


def _users_place(entries, at_module_level=False):
    """Of the innermost of the user's own frames that an exception came through."""
    for frame, line in reversed(entries):
        if _is_users(frame) and (not at_module_level or frame.f_code.co_name == "<module>"):
            return _place(frame, line)
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


def _sent_parts(thing):
    """What was to be pickled, by name: of a Process what it is to be given, of a pool's task the call itself."""
    if isinstance(thing, sys.modules["multiprocessing.process"].BaseProcess):
        parts = _named_arguments(thing) if type(thing).run.__module__ == "multiprocessing.process" else {}
        # An own subclass is sent with all that it has.
        parts.update((key, value) for key, value in vars(thing).items() if not key.startswith("_") or not parts)
        return parts
    return {"task": thing}


def _unpicklable(thing):
    for name, value in _sent_parts(thing).items():
        chain = _find_unpicklable(value)
        if chain is not None:
            culprit = chain[-1]
            fields = {"path": name + _path_of(chain), "type": _kind_of(culprit)}
            fields.update(_definition_line(culprit) or _definition_line(type(culprit)))
            return fields
    return {}


# ---- why a process was not started, as the exception shows it


class _Trace:
    """The way of an exception through the standard library and torch."""

    def __init__(self, error, caller=None):
        """`caller`: of who handles it, where the program has not; the way so far is that of the calls."""
        self.error, self.entries = error, _entries(error)
        while caller is not None:
            self.entries.insert(0, (caller, caller.f_lineno))
            caller = caller.f_back

    def frame_of(self, file_end, *functions):
        for frame, _line in self.entries:
            if frame.f_code.co_name in functions and frame.f_code.co_filename.endswith(file_end):
                return frame
        return None

    def is_raised_in(self, file_end, *functions):
        return bool(self.entries) and self.entries[-1][0] is self.frame_of(file_end, *functions)

    def raised_in(self):
        if not self.entries:
            return ""
        frame, line = self.entries[-1]
        return "%s:%d %s" % (_absolute(frame.f_code.co_filename), line, frame.f_code.co_name)


def _method_of(process):
    method = getattr(process, "_start_method", None)
    if method is None:
        from multiprocessing import context
        method = context._default_context.get_start_method()
    return method


def _is_daemon():
    from multiprocessing import process
    return bool(process.current_process()._config.get("daemon"))


def _is_child():
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.current_process()._parent_pid is not None


def _refused_start(trace, method):
    if trace.frame_of("multiprocessing/spawn.py", "_check_not_importing_main"):
        return dict(_users_place(trace.entries, at_module_level=True) or _users_place(trace.entries), cause="bootstrapping")
    if isinstance(trace.error, AssertionError) and trace.is_raised_in("multiprocessing/process.py", "start") and _is_daemon():
        return dict(_users_place(trace.entries), cause="daemonic")
    dump = trace.frame_of("multiprocessing/reduction.py", "dump")
    if dump is not None:
        return dict(_unpicklable(dump.f_locals.get("obj")), cause="unpicklable")
    return dict(_users_place(trace.entries), cause="other")


def _refused_message(trace):
    """What is sent to a process that lives already: pickled here, made again there."""
    dumps = trace.frame_of("multiprocessing/reduction.py", "dumps")
    if dumps is not None:
        return dict(_unpicklable(dumps.f_locals.get("obj")), cause="unpicklable")
    receives = trace.frame_of("multiprocessing/queues.py", "get") or trace.frame_of("multiprocessing/connection.py", "recv")
    if receives is None or trace.frame_of("multiprocessing/connection.py", "recv_bytes", "_recv_bytes", "_recv"):
        return None
    is_lookup = isinstance(trace.error, (AttributeError, ImportError)) and trace.entries[-1][0] is receives
    return {"cause": "not-found-there" if is_lookup and _is_child() else "not-rebuilt"}


def _refusal_of(trace):
    """The fields of an event of kind "refused"; None: the exception is another one."""
    start = trace.frame_of("multiprocessing/process.py", "start")
    main = trace.frame_of("multiprocessing/spawn.py", "_fixup_main_from_path", "_fixup_main_from_name")
    if start is not None:
        method = _method_of(start.f_locals["self"])
        return dict(_refused_start(trace, method), method=method)
    if main is not None:
        return {"kind": "main-not-imported", "file": str(main.f_locals.get("main_path") or main.f_locals.get("mod_name"))}
    if trace.frame_of("multiprocessing/spawn.py", "_main") and isinstance(trace.error, (AttributeError, ImportError)):
        return {"cause": "not-found-there"}
    if isinstance(trace.error, RuntimeError) and trace.is_raised_in("multiprocessing/context.py", "set_start_method"):
        frame = trace.entries[-1][0]
        return dict(_users_place(trace.entries), cause="context-set", wanted=frame.f_locals.get("method"),
                    method=frame.f_locals["self"]._actual_context._name, path=_first_set[0] if _first_set else None)
    if trace.is_raised_in("torch/cuda/__init__.py", "_lazy_init") and sys.modules["torch.cuda"]._is_in_bad_fork():
        return dict(_users_place(trace.entries), cause="cuda-after-fork")
    return _refused_message(trace)


# ---- what an exception ended


_told = {}


def _causes_of(error):
    causes, seen = [], {id(error)}
    while len(causes) < _MOST_CAUSES:
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is None or id(error) in seen:
            break
        seen.add(id(error))
        place = _users_place(_entries(error))
        causes.append(describe(error) + (" at %s:%d" % (place["file"], place["line"]) if place else ""))
    return causes


def _missing_name(error):
    """Of a NameError the name, if the main module has it: a forked process would have it, too."""
    if not isinstance(error, NameError):
        return None
    quoted = str(error).split("'")
    name = getattr(error, "name", None) or (quoted[1] if len(quoted) == 3 else None)  # CPython 3.10 has it
    return name if name in vars(sys.modules["__main__"]) else None


_refused = [None]  # the last one


def _tell_refusal(trace):
    if trace.error is _refused[0]:
        return
    refusal = _refusal_of(trace)
    if refusal is not None:
        _refused[0] = trace.error
        tell(refusal.pop("kind", "refused"), message=describe(trace.error), **refusal)


def tell_end(ended, error):
    """`error` ended what `ended` names, as the report has it; nothing else is done with it."""
    try:
        if error is None or isinstance(error, SystemExit):
            return
        trace = _Trace(error)
        key = (os.getpid(), ended, type(error), trace.entries[-1][0].f_code if trace.entries else None)
        _told[key] = _told.get(key, 0) + 1
        if _told[key] > 1 or len(_told) > _MOST_ENDS_TOLD:
            return
        _tell_refusal(trace)
        path = getattr(error, "filename", None) if isinstance(error, OSError) else _missing_name(error)
        tell("failed", ended=ended, message=describe(error), type=type(error).__name__, path=path,
             error_number=error.errno if isinstance(error, OSError) else None, raised_in=trace.raised_in(),
             chain=_causes_of(error), **_users_place(trace.entries))
    except Exception:
        pass


def tell_end_of_main():
    tell_end("process", getattr(sys, "last_value", None))


def _call_before(owner, name, before):
    """Has `owner.name` call `before` with the same arguments first. For what does not raise."""
    original = getattr(owner, name)

    def wrapper(*arguments, **keywords):
        try:
            before(*arguments, **keywords)
        except Exception:
            pass
        return original(*arguments, **keywords)

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(wrapper, attribute, getattr(original, attribute))
        except AttributeError:
            pass
    setattr(owner, name, staticmethod(wrapper) if isinstance(vars(owner).get(name), staticmethod) else wrapper)


def _handled():
    return sys.exc_info()[1]


def _hook_threading(module):
    # The program's own exception is known then, and nothing of it was joined yet.
    _call_before(module, "_shutdown", lambda *_: tell_end_of_main())
    make = getattr(module, "_make_invoke_excepthook", None)  # CPython 3.8
    if make is None:
        return

    def making():
        invoke = make()

        def invoke_excepthook(thread):
            tell_end("thread", _handled())
            invoke(thread)
        return invoke_excepthook

    module._make_invoke_excepthook = making


def _hook_pool(module):
    _call_before(module.ExceptionWithTraceback, "__init__", lambda _self, error, _trace: tell_end("task", error))
    _call_before(module.MaybeEncodingError, "__init__", _tell_result)


def _tell_result(_self, error, value):
    """A task's result that cannot be pickled."""
    tell("refused", cause="unpicklable", message=describe(error), **_unpicklable(value))


def _hook_executor(module):
    _call_before(module._ExceptionWithTraceback, "__init__", lambda _self, error, *_: tell_end("task", error))
    if hasattr(module, "_base"):
        _call_before(module._base.LOGGER, "critical", lambda *_, **__: tell_end("initializer", _handled()))
    if hasattr(module, "format_exception"):  # CPython 3.11: what the executor's own thread could not rebuild
        _call_before(module, "format_exception", lambda *_, **__: tell_end("task", _handled()))


def _hook_queues(module):
    if hasattr(module.Queue, "_on_queue_feeder_error"):  # CPython 3.7
        _call_before(module.Queue, "_on_queue_feeder_error", _tell_feeder)


def _tell_feeder(error, thing):
    if not isinstance(error, OSError):
        tell("refused", cause="unpicklable", message=describe(error), **_unpicklable(thing))
    tell_end("feeder", error)


def _hook_torch_utils(module):
    def before(_self, exc_info=None, where=""):
        error = exc_info[1] if exc_info else _handled()
        tell_end("worker" if "DataLoader" in where else "thread", error)

    _call_before(module.ExceptionWrapper, "__init__", before)


# ---- multiprocessing


_first_set = []
_is_begun = False


def _exits(name):
    """How a child leaves by itself, and where."""
    def before(status=None, *_):
        frame = sys._getframe(2)
        if frame.f_globals.get("__name__", "").partition(".")[0] == "multiprocessing":
            return  # what every child ends by
        tell("exits", message=name, count=status if isinstance(status, int) else 0 if status is None else 1,
             **_users_line(frame))
    return before


def _begin_child():
    """In a child, before its work."""
    import traceback
    global _is_begun
    learn_own_start()
    _watch_children(sys.modules["multiprocessing.process"])
    if _is_begun:
        return  # in what it was forked from
    _is_begun = True
    bootstrap = sys.modules["multiprocessing.process"].BaseProcess._bootstrap.__code__

    def before_print(*_arguments, **_keywords):
        if sys._getframe(2).f_code is bootstrap:
            error = _handled()
            tell_end("initializer" if _Trace(error).frame_of("multiprocessing/pool.py", "worker") else "process", error)

    _call_before(traceback, "print_exc", before_print)
    _call_before(os, "_exit", _exits("os._exit"))
    _call_before(sys, "exit", _exits("sys.exit"))


class _Children(set):
    """multiprocessing puts a process among its children when it has started it."""

    def add(self, process):
        set.add(self, process)
        try:
            tell("started", method=_method_of(process), child=process.pid, **_users_line(sys._getframe(1)))
        except Exception:
            pass


def _watch_children(module):
    module._children = _Children(module._children)


def _hook_process(module):
    _watch_children(module)

    def ending(how):
        def before(process):
            if process.is_alive():
                tell("ends-child", message=how, child=process.pid, **_users_line(sys._getframe(2)))
        return before

    for name in ("terminate", "kill"):  # the second since CPython 3.7
        if hasattr(module.BaseProcess, name):
            _call_before(module.BaseProcess, name, ending(name))
    if _IS_TRIAL:
        _hook_start(module.BaseProcess)


def _hook_start(process_class):
    """What is refused is told in a trial even if the program knows what to do then."""
    original = process_class.start

    def start(self):
        if not HAS_AUDIT:
            pace()
        try:
            original(self)
        except Exception as error:
            try:
                _tell_refusal(_Trace(error, sys._getframe(1)))
            except Exception:
                pass
            raise

    start.__doc__ = original.__doc__
    process_class.start = start


def _hook_context(module):
    method = options.get("start_method")
    forced = options.get("force") == "1"
    contexts = module._concrete_contexts
    default = module._default_context
    if method not in contexts:
        return
    default._default_context = contexts[method]

    def chosen(wanted, frame):
        """What a script that names a start method gets. Calls of the standard library are left alone."""
        if wanted is None or wanted == method or wanted not in contexts:
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
        if frame.f_globals.get("__name__", "").partition(".")[0] != "multiprocessing" and self._actual_context is None:
            line = _users_line(frame)
            _first_set[:] = ["%s:%s" % (line.get("file", ""), line.get("line", ""))] if line else []
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


def _begin_served():
    """In a child of the fork server: what it cannot import or unpickle goes to sys.excepthook."""
    if sys._getframe(1).f_globals.get("__name__") == "multiprocessing.forkserver":
        _call_before(sys, "excepthook", lambda _kind, error, _trace: tell_end("process", error))


def _hook_forkserver(_module):
    if hasattr(os, "register_at_fork"):  # CPython 3.7
        os.register_at_fork(after_in_child=_begin_served)


def _hook_util(module):
    _call_before(module, "_run_after_forkers", _begin_child)
    if not _IS_TRIAL:
        return
    # dlprobe removes the temporary folders of processes that it ends.
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
    if not _IS_TRIAL:
        return

    def timed(original):
        def fixup(name):
            began, rss = time.monotonic(), _rss_bytes()
            with _Imports() as imports:
                original(name)
            tell("main-imported", file=str(name), seconds=max(time.monotonic() - began - imports.seconds, 0.0),
                 bytes=max(_rss_bytes() - rss - imports.bytes, 0))
        return fixup

    module._fixup_main_from_path = timed(module._fixup_main_from_path)
    module._fixup_main_from_name = timed(module._fixup_main_from_name)


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


def _tell_loader(loader, frame):
    tell("loader-made", workers=loader.num_workers, prefetch_factor=loader.prefetch_factor, type=_sharing_strategy(),
         **_users_line(frame))


def _hook_data_loader(module):
    asked = bool(options.get("num_workers") or options.get("prefetch_factor") or options.get("force") == "1")
    if asked:
        _hook_arguments(module)
    elif hasattr(module.DataLoader, "check_worker_number_rationality"):  # torch 1.7
        def before(loader):
            frame = sys._getframe(2)
            if frame.f_code.co_name == "__init__":
                _tell_loader(loader, frame)
        _call_before(module.DataLoader, "check_worker_number_rationality", before)
    if _IS_TRIAL or options.get("batches") == "1":
        _hook_batches(module._MultiProcessingDataLoaderIter, "_next_data")
        _hook_batches(module._SingleProcessDataLoaderIter, "_next_data")


def _hook_arguments(module):
    import functools
    import inspect
    original = module.DataLoader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self, *positional, **keywords):
        try:
            bound = signature.bind(self, *positional, **keywords).arguments
            given = dict(list(bound.items())[1:])
            rest = given.pop("kwargs", {})
            positional, keywords = (), dict(_changed(given), **rest)
        except TypeError:
            pass  # the program's own error comes from DataLoader itself
        original(self, *positional, **keywords)
        _tell_loader(self, sys._getframe(1))

    module.DataLoader.__init__ = __init__


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
    "multiprocessing.forkserver": _hook_forkserver,
    "multiprocessing.util": _hook_util,
    "multiprocessing.queues": _hook_queues,
    "multiprocessing.pool": _hook_pool,
    "concurrent.futures.process": _hook_executor,
    "joblib.externals.loky.process_executor": _hook_executor,
    "loky.process_executor": _hook_executor,
    "threading": _hook_threading,
    "torch._utils": _hook_torch_utils,
    "torch.multiprocessing": _hook_torch_multiprocessing,
    "torch.utils.data.dataloader": _hook_data_loader,
}
