"""What is changed in a command, and measured of it, where that is asked for (`options`): other start methods, workers and sharing
strategies, trials that are contained, the speed of loaders. A run without an option loads none of this."""
import os
import sys
import time
from _thread import get_ident

from dlprobe_hooks import first_set, tell_refusal
from dlprobe_start import HAS_AUDIT, open_log, options, pace, tell
from dlprobe_trace import Trace, users_line


def _hook_start(module):
    """What is refused is told in a trial even if the program knows what to do then."""
    original = module.BaseProcess.start

    def start(self):
        if not HAS_AUDIT:
            pace()
        try:
            original(self)
        except Exception as error:
            try:
                tell_refusal(Trace(error, sys._getframe(1)))
            except Exception:
                pass
            raise

    start.__doc__ = original.__doc__
    module.BaseProcess.start = start


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
        tell("chosen", wanted=wanted, method=got, **users_line(frame))
        return got

    set_original = module.DefaultContext.set_start_method
    get_original = module.DefaultContext.get_context

    def set_start_method(self, method, force=False):
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__", "").partition(".")[0] != "multiprocessing" and self._actual_context is None:
            line = users_line(frame)
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


def _rss_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _own_seconds():
    """A clock of this thread that stands still while others have its CPU: monotonic time less what
    /proc/thread-self/schedstat counts as waiting to be run (proc(5); ns, the second number)."""
    now = time.monotonic()
    try:
        with open("/proc/thread-self/schedstat") as schedstat:
            return now - int(schedstat.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return now


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
        began, rss = _own_seconds(), _rss_bytes()
        try:
            return self._real(*arguments, **keywords)
        finally:
            self._is_inside = False
            self.seconds += _own_seconds() - began
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
            began, rss = _own_seconds(), _rss_bytes()
            with _Imports() as imports:
                original(name)
            tell("main-imported", file=str(name), seconds=max(_own_seconds() - began - imports.seconds, 0.0),
                 bytes=max(_rss_bytes() - rss - imports.bytes, 0))
        return fixup

    module._fixup_main_from_path = timed(module._fixup_main_from_path)
    module._fixup_main_from_name = timed(module._fixup_main_from_name)


def _hook_torch_multiprocessing(module):
    strategy = options.get("sharing_strategy")
    if not strategy:
        return
    original = module.set_sharing_strategy
    original(strategy)
    if options.get("force") == "1":
        module.set_sharing_strategy = lambda new_strategy: original(strategy)


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


def _hook_data_loader(module):
    if options.get("num_workers") or options.get("prefetch_factor") or options.get("force") == "1":
        _hook_arguments(module)
    if options.get("batches") == "1":
        _hook_batches(module._MultiProcessingDataLoaderIter, "_next_data")
        _hook_batches(module._SingleProcessDataLoaderIter, "_next_data")


AFTER = {
    "multiprocessing.context": _hook_context,
    "torch.multiprocessing": _hook_torch_multiprocessing,
    "torch.utils.data.dataloader": _hook_data_loader,
}
if "paced_after" in options:  # a trial
    AFTER.update({
        "multiprocessing.process": _hook_start,
        "multiprocessing.spawn": _hook_spawn,
        "multiprocessing.util": _hook_util,
    })
