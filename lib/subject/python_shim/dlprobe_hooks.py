"""What the witness hooks in the modules that start processes and threads (see dlprobe_start.py, which loads this).

An exception is looked at where it ended something: the program, a thread, a child, a task, a DataLoader's worker. What is hooked
for that is called by the library while it handles the exception, so that no frame of ours stands in a traceback and nothing is
done where nothing failed. What an override needs is in dlprobe_overrides.py.
"""
import os
import sys
from errno import EACCES, EDQUOT, EFBIG, EMFILE, ENFILE, ENOENT, ENOMEM, ENOSPC, EPERM, EROFS

import dlprobe_start
from dlprobe_start import describe, learn_own_start, load, options, pass_on, soft_limit, tell
from dlprobe_trace import (Trace, calls_to, causes_of, chain_of, entries_of, first_of_group, handled_in_words, is_in_worker_of_loader, keep_room,
                           missing_guard, missing_name, task_at, users_call, users_line, users_place, users_place_in_words)

_MOST_ENDS_TOLD = 20  # of one process, each place once


def _unpicklable(thing):
    return load("dlprobe_pickle").unpicklable(thing)


# ---- why a process was not started, as the exception shows it


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


def _has_no_room(trace):
    """Whether what can be pickled was refused what that takes: a descriptor, or of a tensor of torch shared memory."""
    return getattr(trace.error, "errno", None) in (EMFILE, ENFILE, ENOMEM, ENOSPC) or trace.frame_of("torch/multiprocessing/reductions.py", "reduce_storage", "reduce_typed_storage") is not None


def _refused_start(trace, method):
    if trace.frame_of("multiprocessing/spawn.py", "_check_not_importing_main"):
        return dict(users_place(trace.entries, at_module_level=True) or users_place(trace.entries), cause="bootstrapping")
    if isinstance(trace.error, AssertionError) and trace.is_raised_in("multiprocessing/process.py", "start") and _is_daemon():
        return dict(users_place(trace.entries), cause="daemonic")
    dump = trace.frame_of("multiprocessing/reduction.py", "dump")
    if dump is not None and trace.is_raised_in("multiprocessing/synchronize.py", "__getstate__"):
        lock = trace.entries[-1][0].f_locals["self"]
        return dict(load("dlprobe_pickle").lock_of_fork(lock, dump.f_locals["obj"]), **users_place(trace.entries))
    if dump is not None and not _has_no_room(trace):
        return dict(_unpicklable(dump.f_locals.get("obj")), cause="unpicklable")
    return dict(users_place(trace.entries), cause="other")


def _not_found_there():
    """`file`: the main module that was imported again, if there is one."""
    return {"cause": "not-found-there", "file": getattr(sys.modules.get("__mp_main__"), "__file__", None)}


def _refused_message(trace):
    """What is sent to a process that lives already: pickled here, made again there."""
    dumps = trace.frame_of("multiprocessing/reduction.py", "dumps")
    if dumps is not None and _has_no_room(trace):
        return None
    if dumps is not None:
        return dict(_unpicklable(dumps.f_locals.get("obj")), cause="unpicklable")
    receives = trace.frame_of("multiprocessing/queues.py", "get") or trace.frame_of("multiprocessing/connection.py", "recv")
    if receives is None or not {"res", "buf"}.intersection(receives.f_locals):
        return None  # nothing came
    at = [frame for frame, _line in trace.entries].index(receives)
    if at + 1 < len(trace.entries) and not users_place(trace.entries[at + 1:]):
        return None  # what the library fetches from the sender, which may be gone
    is_lookup = isinstance(trace.error, (AttributeError, ImportError)) and trace.entries[-1][0] is receives
    return _not_found_there() if is_lookup and _is_child() else {"cause": "not-rebuilt"}


def _refused_task(trace):
    """Whether the kernel had no room for another process or thread: an exception of nothing else, by where it was raised."""
    if isinstance(trace.error, BlockingIOError):
        # What is written in C has no frame of its own.
        forks = {"fork", "forkpty", "posix_spawn", "posix_spawnp"}
        is_fork = bool(trace.entries) and not forks.isdisjoint(trace.entries[-1][0].f_code.co_names)
        is_start = is_fork or trace.is_raised_in("multiprocessing/popen_fork.py", "_launch") \
            or trace.is_raised_in("/subprocess.py", "_execute_child", "_posix_spawn") \
            or trace.is_raised_in("multiprocessing/util.py", "spawnv_passfds")
        return "no-process" if is_start else None
    if type(trace.error) is not RuntimeError or not trace.is_raised_in("/threading.py", "start") or _is_shut_down:
        return None
    thread = trace.entries[-1][0].f_locals["self"]
    return "no-thread" if thread._initialized and not thread._started.is_set() else None


def _ask_limits(question, *arguments):
    try:
        return getattr(load("dlprobe_limits"), question)(*arguments)
    except OSError:
        return None  # no descriptor is left to read it by


def _refusal_of(trace):
    """The fields of an event of kind "refused"; None: the exception is another one."""
    task = _refused_task(trace)
    if task is not None:
        return dict(users_place(trace.entries), cause=task, limit=soft_limit("SC_CHILD_MAX"), count=_ask_limits("tasks_of_user"))
    start = trace.frame_of("multiprocessing/process.py", "start")
    main = trace.frame_of("multiprocessing/spawn.py", "_fixup_main_from_path", "_fixup_main_from_name")
    if start is not None and "self" not in start.f_locals:  # it came with its way from another process
        return load("dlprobe_ends").daemonic_elsewhere(trace)
    if start is not None:
        method = _method_of(start.f_locals["self"])
        return dict(_refused_start(trace, method), method=method)
    sets = isinstance(trace.error, RuntimeError) and trace.is_raised_in("multiprocessing/context.py", "set_start_method")
    at_import = users_place(trace.entries, at_module_level=True) if main is not None and sets else {}
    if at_import:
        return dict(at_import, cause="bootstrapping", wanted=trace.entries[-1][0].f_locals.get("method"))
    if main is not None:
        return {"kind": "main-not-imported", "file": str(main.f_locals.get("main_path") or main.f_locals.get("mod_name")),
                "called_at": users_place_in_words(trace.entries)}
    if trace.frame_of("multiprocessing/spawn.py", "_main") and isinstance(trace.error, (AttributeError, ImportError)):
        return _not_found_there()
    if sets:
        frame = trace.entries[-1][0]
        return dict(users_place(trace.entries), cause="context-set", wanted=frame.f_locals.get("method"),
                    method=frame.f_locals["self"]._actual_context._name, path=first_set[0] if first_set else None)
    if trace.is_raised_in("torch/cuda/__init__.py", "_lazy_init") and sys.modules["torch.cuda"]._is_in_bad_fork():
        return dict(users_place(trace.entries), cause="cuda-after-fork")
    return _refused_message(trace)


# ---- what an exception ended


_told = set()  # of this process
_shut_down_in = []  # ids of the exceptions that managers were shut down for, on their way out


_TORCH_HANDS_ON = (("torch/_utils.py", "reraise"), ("torch/utils/data/dataloader.py", "_try_get_data"),
                   ("torch/utils/data/_utils/signal_handling.py", "handler"),
                   ("torch/multiprocessing/spawn.py", "join"),
                   ("torch/distributed/launcher/api.py", "launch_agent"))
_WAITS_FOR_OTHERS = (("multiprocessing/queues.py", "get"), ("multiprocessing/pool.py", "get", "next"),
                     ("multiprocessing/forkserver.py", "read_signed"),
                     ("multiprocessing/connection.py", "_recv", "recv_bytes", "SocketClient"),
                     ("concurrent/futures/_base.py", "result"), ("/queue.py", "get"),
                     ("/subprocess.py", "run", "check_call", "check_returncode"))


def _is_handed_on(error):
    """Whether it is raised for what another process or thread did, or in waiting for one in vain."""
    executors = sys.modules.get("concurrent.futures.process")
    if executors is not None and isinstance(error, executors.BrokenProcessPool):
        return True
    # multiprocessing.pool, concurrent.futures and loky give it the traceback of there as its cause.
    if type(error.__cause__).__name__.endswith("RemoteTraceback"):
        return True
    trace = Trace(error)
    return any(trace.is_raised_in(*place) for place in _TORCH_HANDS_ON + _WAITS_FOR_OTHERS)


def _system_error(error):
    """What the system refused: `error`, or the first that it was raised from, which torch does not show. None: nothing."""
    found = None
    for each in chain_of(error, also_hidden=True):
        if isinstance(each, OSError):
            found = each
    return found


def _refused_descriptor():
    limit = soft_limit("SC_OPEN_MAX")
    try:
        return dict(load("dlprobe_limits").open_descriptors(limit), limit=limit) if limit is not None else {}
    except OSError as error:
        return {"limit": limit, "count": limit if error.errno == EMFILE else None}  # each below the limit is in use


def _refused_resource(error, refusal):
    """What more is known of a limit that was reached."""
    number = getattr(refusal, "errno", None)
    # By which torch says that it was refused memory or space, and much else is said: what is left tells.
    is_of_torch = type(error) is RuntimeError and "torch" in sys.modules
    is_of_file = refusal is not None and number in (None, EDQUOT, EFBIG, ENOSPC)
    try:
        if type(error).__name__ == "OutOfMemoryError" and type(error).__module__.partition(".")[0] == "torch":
            return load("dlprobe_limits").refused_gpu_memory(Trace(error))
        if number == EMFILE:  # nothing more can be loaded
            return {} if _is_handed_on(refusal) else _refused_descriptor()
        if Trace(error).lost_descriptor():
            return dict(_refused_descriptor(), error_number=EMFILE)
        raised_in = Trace(error).raised_in()
        if isinstance(error, (RuntimeError, ValueError)) and ("/concurrent/" in raised_in or "/multiprocessing/" in raised_in
                                                              or "/threading.py:" in raised_in):
            late = load("dlprobe_ends").shut_down(Trace(error), _is_shut_down)
            if late:
                return late
        known = load("dlprobe_limits").gone_sender(Trace(error)) if "multiprocessing.connection" in sys.modules else {}
        known = known or load("dlprobe_ends").otherwise_wrong(Trace(error), is_child=_is_begun)
        if known:
            return known
        if number == ENOENT and "/multiprocessing/" in Trace(refusal).raised_in():
            removed = load("dlprobe_ends").removed(Trace(refusal))
            if removed:
                return removed
        if number in (EACCES, ENOENT, EPERM, EROFS):
            return load("dlprobe_limits").refused_temporary_file(Trace(refusal))
        if "torch/distributed/" in raised_in:
            return load("dlprobe_ranks").taken_port(Trace(error))
        if is_of_file or number == ENOMEM or isinstance(error, MemoryError) or is_of_torch:
            return load("dlprobe_limits").refused_resource(Trace(refusal or error), Trace(error))
    except Exception:
        pass
    return {}


_refused = [None]  # the last one: no reference to it, which would keep all that its frames hold


def tell_refusal(trace, sent=None):
    """`sent`: what could not be pickled, where that is known."""
    if isinstance(trace.error, (KeyboardInterrupt, MemoryError)):
        return  # of nothing that was started or sent
    name = (id(trace.error), describe(trace.error))
    if name == _refused[0]:
        return
    is_sent = sent is not None and not isinstance(trace.error, OSError) and not _has_no_room(trace)
    if trace.is_raised_in("multiprocessing/context.py", "assert_spawning"):
        refusal = load("dlprobe_pickle").only_inherited(trace)
    else:
        refusal = dict(_unpicklable(sent), cause="unpicklable") if is_sent else _refusal_of(trace)
    if refusal is not None:
        _refused[0] = name
        tell(refusal.pop("kind", "refused"), message=describe(trace.error), **refusal)


def _is_caught_by_pool(ended, call_of_exit):
    """Whether it ended no process but a task, or what an executor begins its worker by."""
    return ended == "initializer" or (ended == "task" and call_of_exit.code not in (None, 0))


def tell_end(ended, error, sent=None, wanted=None):
    """`error` ended what `ended` names, as the report has it; nothing else is done with it. Each place is told once: a
    program may live with an error of every task. `wanted`: what of the program's own is called for it."""
    try:
        is_exit = isinstance(error, SystemExit) and not _is_caught_by_pool(ended, error)
        if not isinstance(error, BaseException) or is_exit or (len(_told) >= _MOST_ENDS_TOLD and ended != "process"):
            return
        error = first_of_group(error)
        trace = Trace(error)
        key = (ended, type(error).__qualname__, trace.raised_in())
        if key in _told:
            return
        _told.add(key)
        tell_refusal(trace, sent)
        refusal = _system_error(error)
        called = users_call(trace.entries) if ended == "task" else None
        fields = dict(users_place(trace.entries), called_at=called, error_number=getattr(refusal, "errno", None),
                      path=getattr(refusal, "filename", None) or missing_name(error))
        fields.update(_refused_resource(error, refusal))
        if wanted is not None:
            fields["wanted"] = wanted
        elif id(error) in _shut_down_in:
            fields.setdefault("wanted", "shutdown")
        if _is_begun:
            fields["shared"] = _ask_limits("shared_with_parent", trace.entries)
        tell("failed", ended=ended, message=describe(error), type=type(error).__name__,
             raised_in=trace.raised_in(), chain=causes_of(error),
             again=next((type(each).__name__ for each in chain_of(error) if _is_handed_on(each)), None), **fields)
    except Exception as fault:
        tell("hook-failed", message="tell_end: %s" % describe(fault), type=type(fault).__name__)
    finally:
        keep_room()


_is_shut_down = False


def tell_end_of_main():
    global _is_shut_down
    tell_end("process", getattr(sys, "last_value", None))
    _is_shut_down = True  # from now on no thread can be started, whatever the limits


def call_before(owner, name, before):
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
    def before_shutdown(*_):
        _tell_end_of_child(sys._getframe(1).f_back)
        tell_end_of_main()

    call_before(module, "_shutdown", before_shutdown)
    make = getattr(module, "_make_invoke_excepthook", None)  # CPython 3.8
    if make is None:
        return
    default = module.excepthook

    def making():
        invoke = make()

        def invoke_excepthook(thread):
            # What a daemon meets when its interpreter ends is nobody's loss.
            if not (_is_shut_down and module.current_thread().daemon):
                tell_end("thread", _handled(), wanted=None if module.excepthook is default else "threading.excepthook")
            invoke(thread)
        return invoke_excepthook

    module._make_invoke_excepthook = making


def _hook_pool(module):
    call_before(module.ExceptionWithTraceback, "__init__", lambda _self, error, _trace: tell_end("task", error))
    # A task's result that cannot be pickled.
    call_before(module.MaybeEncodingError, "__init__", lambda _self, error, value: tell_end("task", error, value))


def _hook_executor(module):
    call_before(module._ExceptionWithTraceback, "__init__", lambda _self, error, *_: tell_end("task", error))
    if hasattr(module, "_base"):
        call_before(module._base.LOGGER, "critical", lambda *_, **__: tell_end("initializer", _handled()))
    # What the executor's own thread cannot make again (CPython 3.9).
    owner = module if hasattr(module, "format_exception") else getattr(module, "traceback", None)
    if owner is not None:
        def before_format(*_, **__):
            if sys._getframe(2).f_code.co_name == "wait_result_broken_or_wakeup":
                tell_end("task", _handled())
        call_before(owner, "format_exception", before_format)


def _hook_queues(module):
    if hasattr(module.Queue, "_on_queue_feeder_error"):  # CPython 3.7
        call_before(module.Queue, "_on_queue_feeder_error", lambda error, thing: tell_end("feeder", error, thing))

    def before_info(_text, *arguments):
        feeder = sys._getframe(2)
        is_failure = feeder.f_code.co_name == "_feed" and arguments and isinstance(arguments[0], Exception)
        if is_failure and not is_in_worker_of_loader():  # which ends when nobody wants its batches any more
            tell_end("feeder", arguments[0], feeder.f_locals.get("obj"))

    call_before(module, "info", before_info)  # in a process that ends


def _hook_torch_utils(module):
    def before(_self, exc_info=None, *_, **__):
        error, is_worker = exc_info[1] if exc_info else _handled(), is_in_worker_of_loader()
        tell_end("worker" if is_worker else "thread", error, wanted=load("dlprobe_data").end_by(error) if is_worker else None)

    call_before(module.ExceptionWrapper, "__init__", before)


# ---- multiprocessing


first_set = []
_loaded_in = os.getpid()
_is_begun = _has_raised = False  # this child; what ended it was no call of sys.exit
_forked_in = None  # the exception that its parent was handling


def _tell_exit(name, status, place, chain=None):
    tell("exits", message=name, count=status if isinstance(status, int) else 0 if status is None else 1, chain=chain, **place)


def _before_os_exit(status=None, *_):
    frame = sys._getframe(2)
    if not _is_begun and (not status or os.getpid() != _loaded_in):
        return  # of what os.fork made nobody asks, nor of a program that ends well
    if frame.f_globals.get("__name__", "").partition(".")[0] != "multiprocessing":  # what every child ends by
        _tell_exit("os._exit", status, dict(users_line(frame), **task_at(calls_to(frame))), handled_in_words(_handled()))


def _before_abort(*_):
    tell("exits", message="os.abort", **users_line(sys._getframe(2)))


def _before_end_of_child(*_):
    """Of multiprocessing, which calls it in any case when a child's work is over: what ended that is being handled."""
    if sys._getframe(2).f_code is not sys.modules["multiprocessing.process"].BaseProcess._bootstrap.__code__:
        return
    error = None if _handled() is _forked_in else _handled()
    if error is not None and Trace(error).is_raised_in("torch/multiprocessing/spawn.py", "_wrap"):
        error = error.__context__ or error  # it hands on what was raised, and leaves by sys.exit
    if isinstance(error, SystemExit):
        task = task_at(entries_of(error))
        _tell_exit("sys.exit", error.code, dict(users_place(entries_of(error)), **(task if task.get("wanted") else {})), causes_of(error))
    elif error is not None:
        _tell_child_failed(error)
    load("dlprobe_crash").forget()
    if "multiprocessing.resource_tracker" in sys.modules:
        load("dlprobe_ends").note_tracker(sys.modules["multiprocessing.resource_tracker"])


def _ends_child(frame):
    """Whether multiprocessing is about to end a child there, and does not call _exit_function first (CPython 3.13 on). None:
    the interpreter itself calls."""
    module = sys.modules.get("multiprocessing.process")
    is_called = sys.version_info >= (3, 13) and module is not None and frame is not None
    return is_called and frame.f_code is module.BaseProcess._bootstrap.__code__


def _before_print(*_, **__):
    global _has_raised
    if _ends_child(sys._getframe(2)):
        _has_raised = True
        _tell_child_failed(_handled())


def _tell_end_of_child(frame):
    if _ends_child(frame) and not _has_raised and frame.f_locals.get("exitcode"):
        _tell_exit("sys.exit", frame.f_locals["exitcode"], {})  # of what it raised nothing is left


def _tell_child_failed(error):
    tell_end("initializer" if Trace(error).frame_of("multiprocessing/pool.py", "worker") else "process", error)


def _begin_child():
    """In a child, before its work."""
    global _forked_in, _is_begun, _is_shut_down
    learn_own_start()
    _told.clear()
    _is_shut_down = False
    _watch_children(sys.modules["multiprocessing.process"])
    _is_begun, _forked_in = True, _handled()  # maybe in what it was forked from
    load("dlprobe_signals").begin_child()
    load("dlprobe_crash").watch()
    _watch_words()
    process = sys.modules["multiprocessing.process"].current_process()
    if "dlprobe_files" in sys.modules:  # with queues, by which it may send data
        load("dlprobe_random").watch_process(process)
        load("dlprobe_files").watch_process(process)
    load("dlprobe_writes").begin_child(process, sys._getframe(1))


class _Children(set):
    """multiprocessing puts a process among its children when it has started it."""

    def add(self, process):
        set.add(self, process)
        try:
            frame = sys._getframe(1)
            tell("started", method=_method_of(process), child=process.pid, wanted=missing_guard(frame), **users_line(frame))
        except Exception as error:
            pass_on(error)


def _watch_children(module):
    module._children = _Children(module._children)


def _watch_words():
    """Now, or when the child imports traceback."""
    def watch(module):
        load("dlprobe_results").watch_words(module)

    if "traceback" in sys.modules:
        return watch(sys.modules["traceback"])
    AFTER.setdefault("traceback", []).append(watch)
    dlprobe_start._HOOKED += ("traceback",)


def _begin_served():
    """In a child of the fork server: what it cannot import or unpickle goes to sys.excepthook."""
    if sys._getframe(1).f_globals.get("__name__") == "multiprocessing.forkserver":
        call_before(sys, "excepthook", lambda _kind, error, _trace: tell_end("process", error))


def _hook_forkserver(_module):
    if hasattr(os, "register_at_fork"):  # CPython 3.7
        os.register_at_fork(after_in_child=_begin_served)


def _hook_util(module):
    load("dlprobe_writes")  # once for all processes that are forked
    call_before(module, "_run_after_forkers", _begin_child)
    call_before(module, "_exit_function", _before_end_of_child)


def _hook_context(module):
    # A process that was forked runs util's; of a spawned one CPython 3.10 has nothing more to do.
    if "_after_fork" in vars(module.SpawnProcess):
        call_before(module.SpawnProcess, "_after_fork", _begin_child)


# ---- torch


def _sharing_strategy():
    module = sys.modules.get("torch.multiprocessing")
    get = getattr(module, "get_sharing_strategy", None)
    return get() if get is not None else None


class Noticed:
    """A member of a class that tells when it is looked up: a wrapper's frame would be the line that its warnings name."""

    def __init__(self, member, notice):
        self.member, self.notice = member, notice

    def __get__(self, instance, owner=None):
        try:
            self.notice(instance, sys._getframe(1))
        except Exception:
            pass
        return self.member.__get__(instance, owner) if hasattr(self.member, "__get__") else self.member


def _hook_data_loader(module):
    def notice(loader, frame):
        if frame.f_code.co_name == "__init__":
            place = users_line(frame)
            is_stream = getattr(loader, "_dataset_kind", 0) == 1
            tell("loader-made", workers=loader.num_workers, prefetch_factor=loader.prefetch_factor, type=_sharing_strategy(),
                 seconds=float(loader.timeout), wanted="stream" if is_stream else None, **place)
            load("dlprobe_epochs").watch(module, loader, place)
            if loader.num_workers > 0:
                load("dlprobe_batches").watch_taker(module)  # loaded once for all workers that are forked

    def notice_worker(_instance, frame):
        if frame.f_code.co_name == "_worker_loop":
            load("dlprobe_data").watch_worker(frame)
            load("dlprobe_crash").watch_worker_of_torch()
        elif "torch.distributed.distributed_c10d" in sys.modules and frame.f_code.co_name == "__init__":
            load("dlprobe_data").watch_trainer(frame)

    check = getattr(module.DataLoader, "check_worker_number_rationality", None)  # torch 1.7
    if check is not None:
        module.DataLoader.check_worker_number_rationality = Noticed(check, notice)
    kinds = getattr(module, "_DatasetKind", None)  # torch 1.2
    if hasattr(kinds, "create_fetcher"):
        kinds.create_fetcher = Noticed(vars(kinds)["create_fetcher"], notice_worker)


# ---- what is hooked when


BEFORE = {"mpi4py.MPI": [lambda _module: load("dlprobe_ranks").before_mpi()]}
AFTER = {
    "mpi4py.MPI": [lambda _module: load("dlprobe_ranks").after_mpi()],
    "multiprocessing.process": [_watch_children, lambda module: load("dlprobe_crash").watch_codes(module, Noticed)],
    "multiprocessing.context": [_hook_context],
    "multiprocessing.synchronize": [lambda module: load("dlprobe_pickle").watch_locks(module, Noticed)],
    "multiprocessing.forkserver": [_hook_forkserver],
    "multiprocessing.util": [_hook_util],
    "multiprocess.process": [_watch_children],
    "multiprocess.util": [lambda module: load("dlprobe_crash").hook_copy(module)],
    "multiprocessing.managers": [lambda module: call_before(module.BaseManager, "_finalize_manager",
                                                            lambda *_, **__: _shut_down_in.append(id(_handled())))],
    "multiprocessing.queues": [_hook_queues, lambda module: load("dlprobe_queues").hook(module)],
    "multiprocessing.pool": [_hook_pool, lambda module: load("dlprobe_results").hook_pool(module)],
    "concurrent.futures._base": [lambda module: load("dlprobe_results").hook_futures(module)],
    "multiprocessing.resource_tracker": [lambda module: load("dlprobe_ends").watch_tracker(module)],
    "concurrent.futures.process": [_hook_executor],
    "joblib.externals.loky.process_executor": [_hook_executor],
    "loky.process_executor": [_hook_executor],
    "threading": [_hook_threading, lambda _module: load("dlprobe_signals"), lambda _module: load("dlprobe_crash").watch()],
    "torch._utils": [_hook_torch_utils],
    "torch.distributed.distributed_c10d": [lambda module: load("dlprobe_ranks").hook_groups(module)],
    "torch.distributed.rendezvous": [lambda module: load("dlprobe_ranks").hook_meeting(module)],
    "torch.multiprocessing.reductions": [lambda module: load("dlprobe_tensors").hook(module)],
    "torch.nn.parallel.distributed": [lambda module: load("dlprobe_ranks").hook_data_parallel(module)],
    "torch.utils.data.dataloader": [_hook_data_loader],
}
if sys.version_info >= (3, 13):
    AFTER["traceback"] = [lambda module: call_before(module, "print_exc", _before_print)]
for _name, _before in (("abort", _before_abort), ("_exit", _before_os_exit)):
    call_before(os, _name, _before)
    setattr(sys.modules["posix"], _name, getattr(os, _name))  # by which it is pickled
if options:
    import dlprobe_overrides
    for _name, _hook in dlprobe_overrides.AFTER.items():
        AFTER.setdefault(_name, []).append(_hook)
