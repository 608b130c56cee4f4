"""Reads a program's syntax tree and says what of it would break where workers import it again (the start
methods spawn and forkserver). Nothing of the program is run or imported.

usage: python -I -S -B -c THIS script PATH | module NAME | code TEXT

It walks through the main module as an interpreter does, with values that are known by their kind alone: a
loader, a process, a lambda, an object of this class. Both branches of an "if" are taken, a loop is run once, a
function of the program is run where it is called, with what it is called with. Modules of the program's own folder
are read where they are imported. What it cannot know it takes for harmless.

It prints one JSON object: the record "script" of docs/recording-format.md. For CPython 3.6 to 3.14, without any
import that costs time: dlprobe waits for it.
"""

import _ast
import os
import sys

MOST_BYTES = 4000000  # of the main module
MOST_OWN_FILES = 16  # modules of the program's own
MOST_OWN_BYTES = 200000  # all of them together
MOST_STEPS = 150000  # statements and expressions that are walked through
MOST_DEPTH = 24  # calls within calls
MOST_RUNS = 6  # of one function
MOST_FACTS = 200
SMALL_FILE = 1000000  # whose loading costs nothing to speak of


# ---- values: what is known of an object

class External:
    """Something of a module that is not read: "torch.utils.data.DataLoader"."""

    def __init__(self, name, is_module=False):
        self.name = name
        self.is_module = is_module


class Constant:
    def __init__(self, value):
        self.value = value


class Function:
    def __init__(self, node, module, scope, name):
        self.node = node
        self.module = module
        self.scope = scope  # where it was defined
        self.name = name
        self.is_nested = scope.kind == "function"
        self.under_guard = False
        self.generates = False
        self.decorated = bool(getattr(node, "decorator_list", ()))

    @property
    def is_lambda(self):
        return type(self.node).__name__ == "Lambda"


class Class:
    def __init__(self, node, module, scope, bases):
        self.node = node
        self.module = module
        self.bases = bases
        self.name = node.name
        self.is_nested = scope.kind == "function"
        self.under_guard = False
        self.members = {}


class Method:
    def __init__(self, function, owner):
        self.function = function
        self.owner = owner


class Instance:
    """An object of a class of the program."""

    def __init__(self, cls):
        self.cls = cls
        self.attributes = {}
        self.lines = {}  # where each attribute was assigned: (file, line)
        self.library = None  # the Loader or Process that it is, by its class's base


class Module:
    """A module of the program."""

    def __init__(self, name, file):
        self.name = name
        self.file = file
        self.scope = Scope("module", None)
        self.is_main = False


class Loader:
    def __init__(self, name):
        self.name = name
        self.workers = False
        self.context = None
        self.parts = {}  # what is sent to its workers: dataset, collate_fn, worker_init_fn


class Process:
    def __init__(self, name, method):
        self.name = name
        self.method = method
        self.target = None
        self.arguments = []  # (path, value)
        self.daemonic = False


class Workers:
    """A Pool or an executor."""

    def __init__(self, name, method, daemonic, started):
        self.name = name
        self.method = method
        self.daemonic = daemonic
        self.started = started
        self.initializer = None


class Context:
    def __init__(self, method):
        self.method = method


class Unpicklable:
    """An object of the standard library that pickle refuses."""

    def __init__(self, type_name):
        self.type_name = type_name


class Generator:
    """What a call of a generator function gives: its body runs when it is iterated over."""

    def __init__(self, run):
        self.run = run


class Box:
    """Something that holds others: (how a path names them, value)."""

    def __init__(self, items, is_sequence=False):
        self.items = items
        self.is_sequence = is_sequence


class OnCuda:
    """A tensor or module on a GPU, or (is_device) the name of one."""

    def __init__(self, is_device=False):
        self.is_device = is_device


class Either:
    def __init__(self, values):
        self.values = values


class Scope:
    def __init__(self, kind, parent):
        self.kind = kind  # "module", "class" or "function"
        self.parent = parent
        self.names = {}
        self.globals = set()
        self.owner = None  # of a class's body: the class

    def find(self, name):
        scope = self
        while scope is not None:
            # The names of a class's body are not seen by its functions.
            if name in scope.names and (scope is self or scope.kind != "class"):
                return scope.names[name]
            scope = scope.parent
        return None


class Frame:
    def __init__(self, module, function):
        self.module = module
        self.function = function
        self.top_line = 0  # of the statement in the body itself
        self.line = 0


class Stop(Exception):
    """Enough was walked through."""


# ---- names of libraries

LOADERS = {
    "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "torch_geometric.loader.DataLoader",
    "torch_geometric.data.DataLoader", "monai.data.DataLoader", "monai.data.ThreadDataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
}
PROCESSES = {"multiprocessing.Process", "multiprocessing.process.BaseProcess", "multiprocessing.context.Process"}
POOLS = {"multiprocessing.Pool", "multiprocessing.pool.Pool"}
EXECUTORS = {"concurrent.futures.ProcessPoolExecutor", "concurrent.futures.process.ProcessPoolExecutor"}
SPAWNERS = {"multiprocessing.spawn", "multiprocessing.start_processes", "multiprocessing.spawn.spawn"}
# What takes the default context for good.
CONTEXT_USERS = {
    "Queue", "JoinableQueue", "SimpleQueue", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Event",
    "Barrier", "Value", "Array", "Pool", "Manager", "get_start_method",
}
POOL_CALLS = {"apply", "apply_async", "map", "map_async", "imap", "imap_unordered", "starmap", "starmap_async",
              "submit"}
HOOKS = ("__getstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")

# type names as pickle has them
UNPICKLABLE = {
    "builtins.open": "open file", "io.open": "open file", "codecs.open": "open file", "gzip.open": "open file",
    "bz2.open": "open file", "lzma.open": "open file", "zipfile.ZipFile": "zipfile.ZipFile",
    "tempfile.TemporaryFile": "open file", "tempfile.NamedTemporaryFile": "open file",
    "threading.Lock": "_thread.lock", "threading.RLock": "_thread.RLock", "threading.Condition": "threading.Condition",
    "threading.Event": "threading.Event", "threading.Semaphore": "threading.Semaphore",
    "threading.BoundedSemaphore": "threading.Semaphore", "threading.Barrier": "threading.Barrier",
    "threading.Thread": "threading.Thread", "threading.local": "_thread._local", "_thread.allocate_lock": "_thread.lock",
    "queue.Queue": "queue.Queue", "queue.LifoQueue": "queue.LifoQueue", "queue.PriorityQueue": "queue.PriorityQueue",
    "queue.SimpleQueue": "_queue.SimpleQueue", "concurrent.futures.ThreadPoolExecutor": "ThreadPoolExecutor",
    "multiprocessing.pool.ThreadPool": "ThreadPool", "sqlite3.connect": "sqlite3.Connection", "mmap.mmap": "mmap.mmap",
    "weakref.ref": "weakref", "builtins.memoryview": "memoryview", "csv.reader": "_csv.reader",
    "subprocess.Popen": "subprocess.Popen", "contextvars.ContextVar": "ContextVar", "h5py.File": "h5py.File",
    "lmdb.open": "lmdb.Environment",
}
# What keeps its arguments, and as what: "*" is a list of them.
HOLDERS = {
    "functools.partial": (".func", ".args[*]"), "Compose": (".transforms", None), "Lambda": (".lambd", None),
    "RandomApply": (".transforms", None), "RandomChoice": (".transforms", None), "RandomOrder": (".transforms", None),
    "torch.utils.data.Subset": (".dataset", None), "torch.utils.data.ConcatDataset": (".datasets", None),
    "torch.utils.data.ChainDataset": (".datasets", None), "collections.defaultdict": (".default_factory", None),
    "builtins.list": ("", None), "builtins.tuple": ("", None), "builtins.dict": ("", None),
    "builtins.map": ("", None), "builtins.filter": ("", None),
}
TRANSFORMS = ("torchvision.transforms.", "torchvision.transforms.v2.", "monai.transforms.")
# They iterate over what they are given, at once.
ITERATES = {"iter", "enumerate", "list", "tuple", "set", "sorted", "zip", "map", "sum", "max", "min", "dict", "all",
            "any", "filter"}
# What gives out what it is given, one by one.
WRAPPERS = {"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.autonotebook.tqdm", "rich.progress.track"}
# Of a library's object: gives back loaders like those that it is given (accelerate, lightning).
PREPARES = {"prepare", "prepare_data_loader", "setup_dataloaders"}
HEAVY = {
    "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "torch.load", "torch.hub.load", "pickle.load", "joblib.load",
    "pandas.read_csv", "pandas.read_parquet", "pandas.read_pickle", "pandas.read_json", "pandas.read_excel",
    "pandas.read_hdf", "pandas.read_feather", "datasets.load_dataset", "cv2.dnn.readNet",
}
HEAVY_IF_LARGE = {"json.load", "json.loads", "open.read"}
CUDA_CALLS = {"init", "set_device", "current_device", "get_device_properties", "get_device_name",
              "get_device_capability", "mem_get_info", "synchronize", "current_stream", "default_stream", "Stream",
              "get_rng_state", "set_rng_state"}


def normalized(name):
    """One name for what has several: torch's multiprocessing has all of Python's."""
    if name == "torch.multiprocessing" or name.startswith("torch.multiprocessing."):
        return name[len("torch."):]
    if name.startswith("multiprocessing.context."):
        return "multiprocessing." + name[len("multiprocessing.context."):]
    return name


def alternatives(value):
    return value.values if isinstance(value, Either) else (value,)


def either(values):
    known = []
    for value in values:
        for one in alternatives(value):
            if one is not None and one not in known:
                known.append(one)
    if not known:
        return None
    return known[0] if len(known) == 1 else Either(known[:6])


def is_constant(node):
    return type(node).__name__ in ("Constant", "Num", "Str", "Bytes", "NameConstant", "Ellipsis")


def constant_of(node):
    name = type(node).__name__
    if name == "Num":
        return node.n
    if name in ("Str", "Bytes"):
        return node.s
    if name == "Ellipsis":
        return Ellipsis
    return node.value


def text_of(value):
    """The one text that the value is, or None."""
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


def is_cuda_name(value):
    for one in alternatives(value):
        if isinstance(one, OnCuda) and one.is_device:
            return True
        if (text_of(one) or "").startswith("cuda"):
            return True
    return False


def generates(node):
    """Whether a function has a yield of its own."""
    waiting = list(node.body) if isinstance(node.body, list) else [node.body]
    while waiting:
        one = waiting.pop()
        name = type(one).__name__
        if name in ("Yield", "YieldFrom"):
            return True
        if name in ("FunctionDef", "AsyncFunctionDef", "ClassDef", "Lambda"):
            continue
        for field in one._fields:
            part = getattr(one, field, None)
            if isinstance(part, _ast.AST):
                waiting.append(part)
            elif isinstance(part, list):
                waiting.extend(item for item in part if isinstance(item, _ast.AST))
    return False


def ends_block(body):
    """Whether what stands behind it in the same block is not reached."""
    if not body:
        return False
    last = body[-1]
    name = type(last).__name__
    if name in ("Return", "Raise", "Continue", "Break"):
        return True
    if name == "Expr" and type(last.value).__name__ == "Call":
        called = last.value.func
        return getattr(called, "attr", getattr(called, "id", "")) in ("exit", "_exit", "quit")
    return False


class Reader:
    def __init__(self, folder, main_is_imported, default_method):
        self.folder = folder
        self.main_is_imported = main_is_imported
        self.default_method = default_method  # of the interpreter
        self.modules = {}
        self.own_files = 0
        self.own_bytes = 0
        self.files_left_out = 0
        self.steps = 0
        self.frames = []
        self.runs = {}
        self.facts = []
        self.seen = set()
        # Where the walk is:
        self.guarded = False  # an import by a worker does not come here
        self.at_import = True  # reached from the main module's statements
        self.in_worker = None  # or (daemonic, where it was started)
        self.handles_runtime_error = 0
        # What the walk has met:
        self.chosen_method = None  # by set_start_method
        self.context_line = None  # what took the default context: (file, line, what)
        self.cuda_line = None  # first use of CUDA in the parent: (file, line, what)
        self.forked_after_cuda = None  # in a worker: cuda_line as it was at the fork
        self.later = []  # functions and classes that may never be called

    # ---- facts

    def here(self, node=None):
        frame = self.frames[-1]
        return frame.module.file, getattr(node, "lineno", frame.line), frame.function

    def module_statement(self):
        """The innermost statement of a module's own level that leads here."""
        for frame in reversed(self.frames):
            if frame.function == "<module>":
                return frame.module.file, frame.top_line, "<module>"
        return self.here()

    def fact(self, kind, place, **more):
        entry = {"kind": kind, "file": place[0], "line": place[1], "function": place[2]}
        entry.update((key, value) for key, value in more.items() if value)
        key = tuple(sorted(entry.items()))
        if key in self.seen or len(self.facts) >= MOST_FACTS:
            return
        self.seen.add(key)
        self.facts.append(entry)

    def imported_again(self):
        return self.main_is_imported and not self.guarded and self.at_import and self.in_worker is None

    # ---- processes are started

    def method_of(self, explicit):
        return explicit or self.chosen_method or ""

    def starts(self, what, explicit, node):
        """A process is started here. Whether it is: a daemonic process may not."""
        method = self.method_of(explicit)
        place = self.here(node)
        if self.in_worker is not None:
            daemonic, where = self.in_worker
            if daemonic:
                self.fact("daemonic-child", place, what=what, other_file=where[0], other_line=where[1], name=where[2])
            return not daemonic
        self.take_context(what, node, explicit)
        self.fact("starts", place, what=what, method=method)
        if self.imported_again():
            self.fact("starts-at-import", self.module_statement(), what=what, method=method, other_file=place[0],
                      other_line=place[1], name=place[2])
        return True

    def take_context(self, what, node, explicit=None):
        if not explicit and self.context_line is None:
            place = self.here(node)
            self.context_line = (place[0], place[1], what)

    def run_in_worker(self, functions, daemonic, what, method, node):
        """Walks through what a worker runs: pairs of a function and its arguments."""
        if self.in_worker is not None and len(self.frames) > MOST_DEPTH // 2:
            return
        method = self.method_of(method) or self.default_method
        place = self.here(node)
        kept = self.in_worker, self.forked_after_cuda, self.chosen_method, self.context_line
        self.in_worker = (daemonic, (place[0], place[1], what))
        self.forked_after_cuda = self.cuda_line if method == "fork" else None
        for function, arguments in functions:
            if function is not None:
                self.call(function, arguments, {}, node)
        self.in_worker, self.forked_after_cuda, self.chosen_method, self.context_line = kept

    def iterate(self, value, node):
        """What `iter(value)` does."""
        for one in alternatives(value):
            if isinstance(one, Instance) and isinstance(one.library, Loader):
                one = one.library
            if isinstance(one, Loader):
                self.iterate_loader(one, node)
            elif isinstance(one, Generator):
                run, one.run = one.run, None
                if run:
                    run()
            elif isinstance(one, Instance):
                self.call(self.member(one, "__iter__"), [], {}, node)

    def iterate_loader(self, loader, node):
        if not loader.workers:
            return
        if not self.starts(loader.name, loader.context, node):
            return
        work = []
        dataset = loader.parts.get("dataset")
        for one in alternatives(dataset):
            for name in ("__getitem__", "__getitems__", "__iter__"):
                work.append((self.member(one, name), [None]))
        work.append((loader.parts.get("worker_init_fn"), [None]))
        work.append((loader.parts.get("collate_fn"), [None]))
        self.run_in_worker(work, True, loader.name, loader.context, node)

    def start_process(self, process, owner, node):
        if not self.starts(process.name, process.method, node):
            return
        for path, value in process.arguments:
            self.check_sent(value, path, process.name, process.method, node)
        if owner is not None:
            self.check_sent(owner, owner.cls.name, process.name, process.method, node)
            work = [(self.member(owner, "run"), [])]
        else:
            self.check_sent(process.target, "target", process.name, process.method, node)
            work = [(process.target, [value for _, value in process.arguments])]
        self.run_in_worker(work, process.daemonic, process.name, process.method, node)

    def send_task(self, workers, name, arguments, node):
        """submit, map and their like: a function is sent to a worker."""
        if not workers.started:
            workers.started = True
            if not self.starts(workers.name, workers.method, node):
                return
        if not arguments:
            return
        self.check_sent(arguments[0], "function", workers.name + "." + name, workers.method, node)
        given = arguments[1:] if name == "submit" else [None]
        if name == "submit":
            for i, value in enumerate(given):
                self.check_sent(value, "args[%d]" % i, workers.name + "." + name, workers.method, node)
        self.run_in_worker([(arguments[0], given)], workers.daemonic, workers.name, workers.method, node)

    # ---- what pickle refuses

    def check_sent(self, value, path, what, method, node):
        place = self.here(node)
        method = self.method_of(method)
        for found_path, type_name, name, defined, kind in self.refused(value, path, set(), 0):
            self.fact(kind, place, what=what, method=method, path=found_path, type=type_name, name=name,
                      other_file=defined[0] if defined else "", other_line=defined[1] if defined else 0)

    def refused(self, value, path, seen, depth):
        if depth > 8 or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Either):
            for one in value.values:
                yield from self.refused(one, path, seen, depth + 1)
        elif isinstance(value, Function):
            yield from self.refused_function(value, path)
        elif isinstance(value, Class):
            yield from self.refused_name(value, path, "class")
        elif isinstance(value, Method):
            yield from self.refused(value.owner, path + ".__self__", seen, depth + 1)
        elif isinstance(value, Instance):
            yield from self.refused_instance(value, path, seen, depth)
        elif isinstance(value, Unpicklable):
            yield path, value.type_name, "", None, "unpicklable"
        elif isinstance(value, Generator):
            yield path, "generator", "", None, "unpicklable"
        elif isinstance(value, Workers):
            yield path, value.name, "", None, "unpicklable"
        elif isinstance(value, (External, Module)) and getattr(value, "is_module", True):
            yield path, "module", value.name, None, "unpicklable"
        elif isinstance(value, Box):
            for label, item in value.items:
                yield from self.refused(item, path + label, seen, depth + 1)

    def refused_function(self, value, path):
        place = (value.module.file, value.node.lineno)
        if value.is_lambda:
            yield path, "lambda", "", place, "unpicklable"
        elif value.is_nested and not value.decorated:
            yield path, "nested function", value.name, place, "unpicklable"
        else:
            yield from self.refused_name(value, path, "function")

    def refused_name(self, value, path, kind):
        """Functions and classes are sent by their name."""
        place = (value.module.file, value.node.lineno)
        if value.is_nested:
            if kind == "class":
                yield path, "local class", value.name, place, "unpicklable"
        elif value.module.is_main and not self.main_is_imported:
            yield path, kind, value.name, place, "not-found-there"
        elif value.module.is_main and value.under_guard:
            yield path, kind, value.name, place, "defined-under-guard"

    def refused_instance(self, value, path, seen, depth):
        if any(self.find_member(value.cls, hook) is not None for hook in HOOKS):
            return
        yield from self.refused_name(value.cls, path, "class")
        for name, attribute in sorted(value.attributes.items()):
            for entry in self.refused(attribute, path + "." + name, seen, depth + 1):
                # Of an open file it helps to know where it was put there.
                yield entry[:3] + (entry[3] or value.lines.get(name),) + entry[4:]

    # ---- CUDA

    def touches_cuda(self, what, node):
        place = self.here(node)
        if self.in_worker is not None:
            if self.forked_after_cuda:
                where = self.forked_after_cuda
                self.fact("cuda-after-fork", place, what=what, name=where[2], other_file=where[0], other_line=where[1],
                          method="fork")
        elif self.cuda_line is None:
            self.cuda_line = (place[0], place[1], what)

    # ---- modules and statements

    def run_module(self, module, tree):
        frame = Frame(module, "<module>")
        self.frames.append(frame)
        self.run_block(tree.body, module.scope, top=frame)
        self.frames.pop()

    def run_block(self, body, scope, top=None):
        kept = self.guarded
        for statement in body:
            if top is not None:
                top.top_line = statement.lineno
            self.frames[-1].line = statement.lineno
            self.run_statement(statement, scope)
        self.guarded = kept

    def step(self):
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stop()

    def run_statement(self, node, scope):
        self.step()
        handler = STATEMENTS.get(type(node).__name__)
        if handler is not None:
            handler(self, node, scope)

    def run_expression(self, node, scope):
        self.value(node.value, scope)

    def run_function(self, node, scope):
        for decorator in node.decorator_list:
            self.value(decorator, scope)
        function = self.new_function(node, scope, node.name)
        names = {getattr(part, "id", getattr(part, "attr", "")) for part in node.decorator_list}
        if scope.kind == "class" and names & {"property", "cached_property"}:
            function = None  # its value is not known
        self.assign_name(node.name, function, scope)
        if function is not None:
            self.later.append(function)

    def new_function(self, node, scope, name):
        function = Function(node, self.frames[-1].module, scope, name)
        function.under_guard = self.guarded and scope.kind == "module"
        function.generates = not function.is_lambda and generates(node)
        return function

    def run_class(self, node, scope):
        bases = [self.value(base, scope) for base in node.bases]
        cls = Class(node, self.frames[-1].module, scope, bases)
        cls.under_guard = self.guarded and scope.kind == "module"
        inner = Scope("class", scope)
        inner.owner = cls
        self.run_block(node.body, inner)
        cls.members = inner.names
        self.assign_name(node.name, cls, scope)

    def run_return(self, node, scope):
        value = self.value(node.value, scope) if node.value is not None else None
        scope.names["return"] = either([scope.names.get("return"), value])

    def run_assign(self, node, scope):
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def run_annotated(self, node, scope):
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def run_augmented(self, node, scope):
        self.value(node.value, scope)

    def assign_name(self, name, value, scope):
        while name in scope.globals and scope.parent is not None:
            scope = scope.parent
        scope.names[name] = value

    def assign(self, target, value, scope):
        kind = type(target).__name__
        if kind == "Name":
            self.assign_name(target.id, value, scope)
        elif kind in ("Tuple", "List"):
            items = value.items if isinstance(value, Box) and value.is_sequence else ()
            exact = len(items) == len(target.elts)
            for i, part in enumerate(target.elts):
                self.assign(getattr(part, "value", part) if type(part).__name__ == "Starred" else part,
                            items[i][1] if exact else None, scope)
        elif kind == "Attribute":
            self.assign_attribute(self.value(target.value, scope), target, value)

    def assign_attribute(self, owner, target, value):
        for one in alternatives(owner):
            if isinstance(one, Instance):
                one.attributes[target.attr] = value
                one.lines[target.attr] = self.here(target)[:2]
                one = one.library
            if isinstance(one, Process) and target.attr == "daemon":
                one.daemonic = isinstance(value, Constant) and value.value is True

    # `if __name__ == "__main__":` and all that is false in a worker that imports the main module.
    def run_if(self, node, scope):
        self.value(node.test, scope)
        truth = self.truth_in_worker(node.test, scope)
        main = self.frames[-1].module.is_main
        if not main and self.is_about_name(node.test):
            # In a module that is imported, neither the parent nor a worker comes here.
            self.run_block(node.body if truth is True else node.orelse, scope)
            return
        kept = self.guarded
        before = self.state(scope)
        if not self.is_never(node.test):
            self.guarded = kept or truth is False
            self.run_block(node.body, scope)
        after = self.state(scope)
        self.restore(before, scope)
        self.guarded = kept or truth is True
        self.run_block(node.orelse, scope)
        if not ends_block(node.body):
            self.join(after, scope)
        # `if __name__ != "__main__": return` guards what stands behind it; run_block takes it back.
        self.guarded = kept or (truth is True and ends_block(node.body))

    # Of two branches one is taken: what the first has done is not there in the second.
    def state(self, scope):
        return dict(scope.names), self.context_line, self.chosen_method, self.cuda_line

    def restore(self, state, scope):
        scope.names = dict(state[0])
        self.context_line, self.chosen_method, self.cuda_line = state[1:]

    def join(self, other, scope):
        for name, value in other[0].items():
            here = scope.names.get(name)
            if here is not value:
                scope.names[name] = either([value, here])
        self.context_line = self.context_line or other[1]
        self.chosen_method = self.chosen_method or other[2]
        self.cuda_line = self.cuda_line or other[3]

    def is_never(self, test):
        if is_constant(test):
            return not constant_of(test)
        return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"

    def is_about_name(self, test):
        if type(test).__name__ != "Compare":
            return False
        return any(getattr(part, "id", "") == "__name__" for part in [test.left] + test.comparators)

    def truth_in_worker(self, test, scope):
        """True, False, or None: not known."""
        kind = type(test).__name__
        if kind == "UnaryOp" and type(test.op).__name__ == "Not":
            truth = self.truth_in_worker(test.operand, scope)
            return None if truth is None else not truth
        if kind == "BoolOp":
            truths = [self.truth_in_worker(part, scope) for part in test.values]
            ends = type(test.op).__name__ == "Or"  # the value that decides alone
            if ends in truths:
                return ends
            return None if None in truths else not ends
        if kind == "Compare" and len(test.ops) == 1:
            return self.comparison_in_worker(test, scope)
        return None

    def comparison_in_worker(self, test, scope):
        left = self.name_in_worker(test.left, scope)
        right = self.name_in_worker(test.comparators[0], scope)
        operator = type(test.ops[0]).__name__
        if left is None or right is None or (left[0] == right[0]):
            return None
        # ("worker's", text of it) beside ("text", text that it is held against)
        equal = left[1] == right[1]
        if operator in ("Eq", "Is"):
            return equal
        return not equal if operator in ("NotEq", "IsNot") else None

    def name_in_worker(self, node, scope):
        if is_constant(node) and isinstance(constant_of(node), str):
            return "text", constant_of(node)
        if getattr(node, "id", "") == "__name__":
            main = self.frames[-1].module
            return "worker's", "__mp_main__" if main.is_main else main.name
        # multiprocessing.current_process().name; parent_process() is None even in a worker at that time.
        if type(node).__name__ == "Attribute" and node.attr == "name" and type(node.value).__name__ == "Call":
            called = self.value(node.value.func, scope)
            if isinstance(called, External) and normalized(called.name) == "multiprocessing.current_process":
                return "worker's", "SpawnProcess-1"
        return None

    def run_for(self, node, scope):
        value = self.value(node.iter, scope)
        self.iterate(value, node.iter)
        if value is None and type(node.iter).__name__ == "Call":
            # Something that wraps a loader: tqdm(loader).
            for argument in node.iter.args:
                if type(argument).__name__ in ("Name", "Attribute", "Call"):
                    self.iterate(self.peek(argument, scope), node.iter)
        self.assign(node.target, self.element_of(value), scope)
        self.run_block(node.body, scope)
        self.run_block(node.orelse, scope)

    def peek(self, node, scope):
        """A name's value, without running anything again."""
        if type(node).__name__ == "Name":
            return scope.find(node.id)
        if type(node).__name__ == "Attribute":
            owner = self.peek(node.value, scope)
            return owner.attributes.get(node.attr) if isinstance(owner, Instance) else None
        return None

    def element_of(self, value):
        if isinstance(value, Box) and value.is_sequence:
            return either([item for _, item in value.items])
        return None

    def run_while(self, node, scope):
        self.value(node.test, scope)
        if not self.is_never(node.test):
            self.run_block(node.body, scope)
        self.run_block(node.orelse, scope)

    def run_with(self, node, scope):
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if isinstance(value, Instance):
                given = self.call(self.member(value, "__enter__"), [], {}, node)
                value = value if given is None else given
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, scope)
        self.run_block(node.body, scope)

    def run_try(self, node, scope):
        names = []
        for handler in node.handlers:
            types = getattr(handler.type, "elts", [handler.type])
            names.extend("Exception" if part is None else getattr(part, "id", "") for part in types)
        handles = any(name in ("RuntimeError", "Exception", "BaseException") for name in names)
        self.handles_runtime_error += handles
        self.run_block(node.body, scope)
        self.handles_runtime_error -= handles
        for handler in node.handlers:
            self.run_block(handler.body, scope)
        self.run_block(node.orelse, scope)
        self.run_block(node.finalbody, scope)

    def run_match(self, node, scope):
        self.value(node.subject, scope)
        for case in node.cases:
            self.run_block(case.body, scope)

    def run_global(self, node, scope):
        scope.globals.update(node.names)

    # ---- imports

    def run_import(self, node, scope):
        for alias in node.names:
            module = self.own_module(alias.name, 0)
            parts = alias.name.split(".")
            if module is None:
                self.meet_import(alias.name)
                bound = alias.name if alias.asname else parts[0]
                self.assign_name(alias.asname or parts[0], External(bound, True), scope)
            else:
                self.assign_name(alias.asname or parts[0], module if alias.asname or len(parts) == 1
                                 else self.own_module(parts[0], 0), scope)

    def run_import_from(self, node, scope):
        name = node.module or ""
        module = self.own_module(name, node.level)
        for alias in node.names:
            if module is None:
                whole = name + "." + alias.name if name else alias.name
                own = self.own_module(whole, node.level)
                if own is None:
                    self.meet_import(whole)
                self.assign_name(alias.asname or alias.name, own or External(whole), scope)
            elif alias.name == "*":
                scope.names.update(module.scope.names)
            else:
                value = module.scope.names.get(alias.name)
                if value is None and os.path.basename(module.file) == "__init__.py":
                    value = self.own_module((name + "." if name else "") + alias.name, node.level)
                self.assign_name(alias.asname or alias.name, value, scope)

    def meet_import(self, name):
        # mpi4py initialises MPI when its module MPI is imported.
        if name == "mpi4py.MPI" and self.imported_again():
            self.fact("mpi-at-import", self.module_statement(), what=name)

    def own_module(self, name, level):
        """A module beside the script, or None. Its statements are walked through when it is first met."""
        base = self.folder
        if level:
            base = os.path.dirname(self.frames[-1].module.file)
            for _ in range(level - 1):
                base = os.path.dirname(base)
        if base is None or (not name and not level):
            return None
        path = os.path.join(base, *name.split(".")) if name else base
        for file in (os.path.join(path, "__init__.py"), path + ".py"):
            if file in self.modules:
                return self.modules[file]
            if os.path.isfile(file):
                return self.read_own(file, name)
        return None

    def read_own(self, file, name):
        self.modules[file] = None
        size = os.path.getsize(file)
        if self.own_files >= MOST_OWN_FILES or self.own_bytes + size > MOST_OWN_BYTES:
            self.files_left_out += 1
            return None
        self.own_files += 1
        self.own_bytes += size
        try:
            tree = parse_file(file)
        except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
            self.files_left_out += 1
            return None
        module = self.modules[file] = Module(name, file)
        self.run_module(module, tree)
        return module

    # ---- expressions

    def value(self, node, scope):
        self.step()
        handler = EXPRESSIONS.get(type(node).__name__)
        if handler is not None:
            return handler(self, node, scope)
        # What is not known by its kind: its parts may still call something.
        for field in node._fields:
            part = getattr(node, field, None)
            if isinstance(part, _ast.expr):
                self.value(part, scope)
            elif isinstance(part, list):
                for item in part:
                    if isinstance(item, _ast.expr):
                        self.value(item, scope)
        return None

    def value_name(self, node, scope):
        value = scope.find(node.id)
        if value is None and node.id in BUILTINS:
            return External("builtins." + node.id)
        return value

    def value_constant(self, node, scope):
        return Constant(constant_of(node))

    def value_attribute(self, node, scope):
        owner = self.value(node.value, scope)
        return either([self.attribute(one, node.attr) for one in alternatives(owner)])

    def attribute(self, owner, name):
        if isinstance(owner, External):
            return External(owner.name + "." + name)
        if isinstance(owner, Module):
            return owner.scope.names.get(name)
        if isinstance(owner, Instance) and name in owner.attributes:
            return owner.attributes[name]
        return self.member(owner, name)

    def member(self, owner, name):
        """A method, bound."""
        if isinstance(owner, Instance):
            found = self.find_member(owner.cls, name)
            return Method(found, owner) if isinstance(found, Function) else found
        if isinstance(owner, Class):
            return self.find_member(owner, name)
        return None

    def find_member(self, cls, name, depth=0):
        if name in cls.members:
            return cls.members[name]
        for base in cls.bases:
            if isinstance(base, Class) and depth < 8:
                found = self.find_member(base, name, depth + 1)
                if found is not None:
                    return found
        return None

    def library_base(self, cls, depth=0):
        """The library's class that a class of the program is made of, or None."""
        for base in cls.bases:
            if isinstance(base, External):
                name = normalized(base.name)
                if name in LOADERS or name in PROCESSES:
                    return name
            elif isinstance(base, Class) and depth < 8:
                found = self.library_base(base, depth + 1)
                if found is not None:
                    return found
        return None

    def value_lambda(self, node, scope):
        return self.new_function(node, scope, "<lambda>")

    def value_generator(self, node, scope):
        self.value_comprehension(node, scope)
        return Unpicklable("generator")

    def value_comprehension(self, node, scope):
        inner = Scope("function", scope)
        items = []
        for part in node.generators:
            value = self.value(part.iter, inner)
            self.iterate(value, part.iter)
            self.assign(part.target, self.element_of(value), inner)
            for test in part.ifs:
                self.value(test, inner)
        if type(node).__name__ == "DictComp":
            self.value(node.key, inner)
            items.append(("[...]", self.value(node.value, inner)))
        else:
            items.append(("[...]", self.value(node.elt, inner)))
        return Box(items)

    def value_sequence(self, node, scope):
        items = []
        for i, part in enumerate(node.elts):
            items.append(("[%d]" % i, self.value(part, scope)))
        return Box(items, is_sequence=True)

    def value_dict(self, node, scope):
        items = []
        for key, part in zip(node.keys, node.values):
            label = "[...]"
            if key is not None:
                known = self.value(key, scope)
                if isinstance(known, Constant) and isinstance(known.value, (str, int)):
                    label = "[%r]" % (known.value,)
            items.append((label, self.value(part, scope)))
        return Box(items)

    def value_if(self, node, scope):
        self.value(node.test, scope)
        return either([self.value(node.body, scope), self.value(node.orelse, scope)])

    def value_bool(self, node, scope):
        return either([self.value(part, scope) for part in node.values])

    def value_named(self, node, scope):
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def value_await(self, node, scope):
        return self.value(node.value, scope)

    def value_subscript(self, node, scope):
        owner = self.value(node.value, scope)
        index = self.value(getattr(node.slice, "value", node.slice) if type(node.slice).__name__ == "Index"
                           else node.slice, scope)
        if isinstance(owner, OnCuda):
            self.touches_cuda("tensor[...]", node)
            return owner
        if isinstance(owner, Box) and isinstance(index, Constant):
            for label, item in owner.items:
                if label == "[%r]" % (index.value,):
                    return item
        if isinstance(owner, Instance):
            return self.call(self.member(owner, "__getitem__"), [index], {}, node)
        return None

    # ---- calls

    def value_call(self, node, scope):
        function = node.func
        if type(function).__name__ == "Name" and function.id == "super" and not node.args:
            return None
        if self.is_super_call(function):
            return self.call_super(node, scope)
        owner = None
        if type(function).__name__ == "Attribute":
            owner = self.value(function.value, scope)
            called = either([self.attribute(one, function.attr) for one in alternatives(owner)])
        else:
            called = self.value(function, scope)
        arguments, keywords = self.arguments(node, scope)
        results = []
        if owner is not None or type(function).__name__ == "Attribute":
            for one in alternatives(owner):
                results.append(self.call_method(one, function.attr, arguments, keywords, node))
        for one in alternatives(called):
            results.append(self.call(one, arguments, keywords, node))
        return either(results)

    def arguments(self, node, scope):
        arguments = []
        for part in node.args:
            value = self.value(part, scope)
            if type(part).__name__ == "Starred":
                value = None
            arguments.append(value)
        keywords = {}
        for part in node.keywords:
            value = self.value(part.value, scope)
            if part.arg is not None:
                keywords[part.arg] = value
            elif isinstance(value, Box):
                for label, item in value.items:
                    if label[:2] == "['":
                        keywords[label[2:-2]] = item
        return arguments, keywords

    def is_super_call(self, function):
        return (type(function).__name__ == "Attribute" and type(function.value).__name__ == "Call"
                and getattr(function.value.func, "id", "") == "super")

    def call_super(self, node, scope):
        arguments, keywords = self.arguments(node, scope)
        owner = scope.find("self")
        if not isinstance(owner, Instance) or node.func.attr != "__init__":
            return None
        if owner.library is not None:
            self.fill_library(owner, arguments, keywords, node)
        for base in owner.cls.bases:
            if isinstance(base, Class):
                found = self.find_member(base, "__init__")
                if found is not None and found.scope is not scope.parent:
                    self.call(Method(found, owner), arguments, keywords, node)
        return None

    def call(self, called, arguments, keywords, node):
        if isinstance(called, Function):
            return self.call_function(called, arguments, keywords, node)
        if isinstance(called, Method):
            return self.call_function(called.function, [called.owner] + arguments, keywords, node)
        if isinstance(called, Class):
            return self.new_instance(called, arguments, keywords, node)
        if isinstance(called, Instance):
            for name in ("__call__", "forward"):
                found = self.member(called, name)
                if found is not None:
                    return self.call(found, arguments, keywords, node)
            return None
        if isinstance(called, Either):
            return either([self.call(one, arguments, keywords, node) for one in called.values])
        if isinstance(called, Box) and called.items and called.items[0][0] == ".func":
            return self.call(called.items[0][1], arguments, keywords, node)
        if isinstance(called, External):
            return self.call_external(normalized(called.name), arguments, keywords, node)
        return None

    def call_function(self, function, arguments, keywords, node):
        key = (id(function.node), self.guarded, self.in_worker is None, self.at_import)
        runs = self.runs[key] = self.runs.get(key, 0) + 1
        if runs > MOST_RUNS or len(self.frames) > MOST_DEPTH:
            return None
        scope = Scope("function", function.scope)
        self.bind(function.node.args, arguments, keywords, scope, function)
        if function.is_lambda:
            return self.inside(function, lambda: self.value(function.node.body, scope))
        if function.generates:
            return Generator(lambda: self.inside(function, lambda: self.run_block(function.node.body, scope)))
        self.inside(function, lambda: self.run_block(function.node.body, scope))
        return scope.names.get("return")

    def inside(self, function, run):
        self.frames.append(Frame(function.module, function.name))
        self.frames[-1].line = function.node.lineno
        kept = self.guarded
        try:
            return run()
        finally:
            self.guarded = kept
            self.frames.pop()

    def bind(self, parameters, arguments, keywords, scope, function):
        plain = list(getattr(parameters, "posonlyargs", ())) + parameters.args
        names = [part.arg for part in plain]
        defaults = parameters.defaults
        for name, default in zip(names[len(names) - len(defaults):], defaults):
            scope.names[name] = self.default(default, function)
        for part, default in zip(parameters.kwonlyargs, parameters.kw_defaults):
            scope.names[part.arg] = self.default(default, function) if default is not None else None
        for name, value in zip(names, arguments):
            scope.names[name] = value
        for name, value in keywords.items():
            scope.names[name] = value
        for name in names:
            scope.names.setdefault(name, None)

    def default(self, node, function):
        if is_constant(node) or type(node).__name__ in ("Name", "Attribute", "Lambda"):
            return self.value(node, function.scope)
        return None

    def new_instance(self, cls, arguments, keywords, node):
        instance = Instance(cls)
        base = self.library_base(cls)
        if base in LOADERS:
            instance.library = Loader(base)
        elif base in PROCESSES:
            instance.library = Process(base, None)
        found = self.find_member(cls, "__init__")
        if isinstance(found, Function):
            self.call(Method(found, instance), arguments, keywords, node)
        elif instance.library is not None:
            self.fill_library(instance, arguments, keywords, node)
        else:
            # A dataclass or a NamedTuple keeps what it is given.
            instance.attributes.update(keywords)
        return instance

    def fill_library(self, instance, arguments, keywords, node):
        if isinstance(instance.library, Loader):
            self.fill_loader(instance.library, arguments, keywords, node)
        elif isinstance(instance.library, Process):
            self.fill_process(instance.library, arguments, keywords)

    def fill_loader(self, loader, arguments, keywords, node):
        def given(name, position):
            if name in keywords:
                return keywords[name]
            return arguments[position] if position is not None and position < len(arguments) else None

        workers = given("num_workers", 5)
        named = "num_workers" in keywords or len(arguments) > 5
        loader.workers = named and not (isinstance(workers, Constant) and not workers.value)
        context = given("multiprocessing_context", 11)
        loader.context = context.method if isinstance(context, Context) else text_of(context)
        loader.parts = {"dataset": given("dataset", 0), "collate_fn": given("collate_fn", 6),
                        "worker_init_fn": given("worker_init_fn", 10)}
        if loader.workers and self.in_worker is None:
            self.fact("starts", self.here(node), what=loader.name, method=self.method_of(loader.context))
            for path, value in sorted(loader.parts.items()):
                self.check_sent(value, path, loader.name, loader.context, node)

    def fill_process(self, process, arguments, keywords):
        def given(name, position):
            if name in keywords:
                return keywords[name]
            return arguments[position] if position < len(arguments) else None

        process.target = given("target", 1)
        daemonic = keywords.get("daemon")
        process.daemonic = isinstance(daemonic, Constant) and daemonic.value is True
        for name, position in (("args", 3), ("kwargs", 4)):
            value = given(name, position)
            if isinstance(value, Box):
                process.arguments += [(name + label, item) for label, item in value.items]

    def call_method(self, owner, name, arguments, keywords, node):
        """Methods of library objects; None for all others."""
        instance = owner if isinstance(owner, Instance) else None
        if instance is not None and instance.library is not None and self.find_member(instance.cls, name) is None:
            owner = instance.library
        if isinstance(owner, Process) and name == "start":
            self.start_process(owner, instance, node)
        elif isinstance(owner, Workers) and name in POOL_CALLS:
            self.send_task(owner, name, arguments or [keywords.get("func")], node)
        elif isinstance(owner, Context):
            return self.call_multiprocessing(name, owner.method, arguments, keywords, node)
        elif isinstance(owner, Loader) and name == "__iter__":
            self.iterate(owner, node)
        elif isinstance(owner, Unpicklable) and owner.type_name == "open file" and name in ("read", "readlines"):
            self.meet_heavy("open.read", [Constant(getattr(owner, "path", None))], node)
        elif isinstance(owner, Box) and name in ("append", "extend", "insert") and arguments:
            owner.items.append(("[%d]" % len(owner.items), arguments[-1]))
        elif isinstance(owner, OnCuda) and not owner.is_device:
            self.touches_cuda("tensor." + name, node)
            return None if name in ("cpu", "numpy", "item", "tolist") else owner
        elif name in PREPARES and not isinstance(owner, (Instance, Class, Module)):
            return arguments[0] if len(arguments) == 1 else Box([("", value) for value in arguments], True)
        elif name == "from_pretrained":
            self.meet_heavy("from_pretrained", arguments, node)
        return self.call_cuda_method(owner, name, arguments, keywords, node)

    def call_cuda_method(self, owner, name, arguments, keywords, node):
        if isinstance(owner, (External, Module, Class)):
            return None
        if name == "cuda" or (name == "to" and (any(is_cuda_name(value) for value in arguments)
                                                or is_cuda_name(keywords.get("device")))):
            if isinstance(owner, Instance) and self.find_member(owner.cls, name) is not None:
                return None
            self.touches_cuda("." + name + "()", node)
            return owner if isinstance(owner, Instance) else OnCuda()
        return None

    def call_external(self, name, arguments, keywords, node):
        if name in LOADERS:
            loader = Loader(name)
            self.fill_loader(loader, arguments, keywords, node)
            return loader
        if name in SPAWNERS:
            return self.call_spawn(name, arguments, keywords, node)
        if name == "multiprocessing.pool.Pool":
            return self.call_multiprocessing("Pool", None, arguments, keywords, node)
        if name.startswith("multiprocessing.") and name.count(".") == 1:
            return self.call_multiprocessing(name.split(".")[1], None, arguments, keywords, node)
        if name in EXECUTORS:
            return self.new_executor(name, arguments, keywords, node)
        if name.startswith("builtins."):
            return self.call_builtin(name[len("builtins."):], arguments, keywords, node)
        if name.startswith("itertools."):
            for value in arguments:
                self.iterate(value, node)
            return None
        if name in UNPICKLABLE:
            return self.new_unpicklable(name, arguments)
        if name in HEAVY or name in HEAVY_IF_LARGE or name.endswith(".from_pretrained"):
            self.meet_heavy(name, arguments, node)
            return None
        if name in WRAPPERS:
            return arguments[0] if arguments else None
        if name.startswith("torch."):
            return self.call_torch(name, arguments, keywords, node)
        return self.new_holder(name, arguments, keywords)

    def call_builtin(self, name, arguments, keywords, node):
        if name in ITERATES:
            for value in arguments:
                self.iterate(value, node)
            if name == "iter" and arguments:
                return None
        if name == "next" and arguments:
            self.iterate(arguments[0], node)
        if "builtins." + name in UNPICKLABLE:
            return self.new_unpicklable("builtins." + name, arguments)
        return self.new_holder("builtins." + name, arguments, keywords)

    def new_unpicklable(self, name, arguments):
        made = Unpicklable(UNPICKLABLE[name])
        made.path = text_of(arguments[0]) if arguments else None
        return made

    def new_holder(self, name, arguments, keywords):
        short = name.rsplit(".", 1)[-1]
        labels = HOLDERS.get(name) or (HOLDERS.get(short) if name.startswith(TRANSFORMS) else None)
        if labels is None:
            return None
        items = []
        for i, value in enumerate(arguments):
            label = labels[0] if i == 0 else (labels[1] or "").replace("*", str(i - 1))
            if label or i == 0:
                items.append((label, value))
        for key, value in sorted(keywords.items()):
            items.append((".keywords['%s']" % key if name == "functools.partial" else "." + key, value))
        return Box(items)

    def call_torch(self, name, arguments, keywords, node):
        if name == "torch.device":
            return OnCuda(True) if arguments and is_cuda_name(arguments[0]) else None
        if name.startswith("torch.cuda.") and name[len("torch.cuda."):] in CUDA_CALLS:
            self.touches_cuda(name, node)
            return None
        if is_cuda_name(keywords.get("device")) and name.count(".") == 1:
            self.touches_cuda(name, node)
            return OnCuda()
        if any(isinstance(value, OnCuda) and not value.is_device for value in arguments):
            self.touches_cuda(name, node)
        return self.new_holder(name, arguments, keywords)

    # ---- multiprocessing

    def call_multiprocessing(self, name, method, arguments, keywords, node):
        if name == "get_context":
            chosen = text_of(arguments[0] if arguments else keywords.get("method"))
            if chosen is None and not arguments:
                self.take_context("multiprocessing.get_context", node)
            return Context(chosen or method)
        if name == "set_start_method":
            self.set_start_method(arguments, keywords, node)
            return None
        if name == "Process":
            process = Process("multiprocessing.Process", method)
            self.fill_process(process, arguments, keywords)
            return process
        if name in CONTEXT_USERS and self.in_worker is None:
            self.take_context("multiprocessing." + name, node, method)
        if name == "Pool":
            return self.new_pool(method, arguments, keywords, node)
        if name == "Manager":
            self.starts("multiprocessing.Manager", method, node)
        return None

    def new_pool(self, method, arguments, keywords, node):
        pool = Workers("multiprocessing.Pool", method, True, True)
        if self.starts(pool.name, method, node):
            self.initialize(pool, arguments, keywords, 1, node)
        return pool

    def new_executor(self, name, arguments, keywords, node):
        context = keywords.get("mp_context", arguments[1] if len(arguments) > 1 else None)
        workers = Workers("concurrent.futures.ProcessPoolExecutor",
                          context.method if isinstance(context, Context) else None, False, False)
        self.initialize(workers, arguments, keywords, 2, node)
        return workers

    def initialize(self, workers, arguments, keywords, position, node):
        initializer = keywords.get("initializer", arguments[position] if len(arguments) > position else None)
        given = keywords.get("initargs", arguments[position + 1] if len(arguments) > position + 1 else None)
        items = given.items if isinstance(given, Box) else []
        self.check_sent(initializer, "initializer", workers.name, workers.method, node)
        for label, item in items:
            self.check_sent(item, "initargs" + label, workers.name, workers.method, node)
        self.run_in_worker([(initializer, [item for _, item in items])], workers.daemonic, workers.name,
                           workers.method, node)

    def call_spawn(self, name, arguments, keywords, node):
        """torch.multiprocessing.spawn(fn, args, nprocs, join, daemon, start_method)"""
        function = arguments[0] if arguments else keywords.get("fn")
        given = arguments[1] if len(arguments) > 1 else keywords.get("args")
        method = text_of(keywords.get("start_method")) or "spawn"
        name = "torch." + name
        if not self.starts(name, method, node):
            return None
        self.check_sent(function, "fn", name, method, node)
        items = given.items if isinstance(given, Box) else []
        for label, item in items:
            self.check_sent(item, "args" + label, name, method, node)
        daemon = keywords.get("daemon")
        self.run_in_worker([(function, [None] + [item for _, item in items])],
                           isinstance(daemon, Constant) and daemon.value is True, name, method, node)
        return None

    def set_start_method(self, arguments, keywords, node):
        force = keywords.get("force", arguments[1] if len(arguments) > 1 else None)
        forced = isinstance(force, Constant) and bool(force.value)
        method = text_of(arguments[0] if arguments else keywords.get("method"))
        place = self.here(node)
        if self.in_worker is None:
            if not forced and not self.handles_runtime_error:
                if self.context_line is not None and self.context_line[:2] != place[:2]:
                    first = self.context_line
                    self.fact("set-twice", place, what=first[2], method=method, other_file=first[0],
                              other_line=first[1])
                if self.imported_again():
                    self.fact("set-at-import", place, what="multiprocessing.set_start_method", method=method)
            self.context_line = (place[0], place[1], "multiprocessing.set_start_method")
        self.chosen_method = method

    # ---- heavy work

    def meet_heavy(self, name, arguments, node):
        if not self.imported_again():
            return
        size = None
        path = text_of(arguments[0]) if arguments else None
        if path is None and arguments and isinstance(arguments[0], Unpicklable):
            path = getattr(arguments[0], "path", None)
        if path and self.folder is not None:
            try:
                size = os.stat(path).st_size
            except (OSError, ValueError):
                size = None
        if size is None and name in HEAVY_IF_LARGE:
            return
        if size is not None and size < SMALL_FILE:
            return
        self.fact("heavy-at-import", self.module_statement(), what=name, other_file=self.here(node)[0],
                  other_line=self.here(node)[1], bytes=size)

    # ---- the whole program

    def read(self, tree, module):
        module.is_main = True
        try:
            self.run_module(module, tree)
            self.run_rest()
        except Stop:
            return False
        return True

    def run_rest(self):
        """Functions that nothing called: by a framework, perhaps. What they send can still be looked at."""
        self.guarded, self.at_import = True, False
        instances = {}
        for function in list(self.later):
            called = any(key[0] == id(function.node) for key in self.runs)
            if called or function.scope.kind == "function":
                continue
            self.cuda_line = self.context_line = self.chosen_method = None
            self.frames = [Frame(function.module, function.name)]
            given = []
            owner = function.scope.owner
            if owner is not None and "self" in [part.arg for part in function.node.args.args[:1]]:
                if owner not in instances:
                    instances[owner] = self.new_instance(owner, [], {}, owner.node)
                given = [instances[owner]]
            value = self.call_function(function, given, {}, function.node)
            if isinstance(value, Generator) and value.run:
                value.run()


STATEMENTS = {
    "Expr": Reader.run_expression, "FunctionDef": Reader.run_function, "AsyncFunctionDef": Reader.run_function,
    "ClassDef": Reader.run_class, "Return": Reader.run_return, "Assign": Reader.run_assign,
    "AnnAssign": Reader.run_annotated, "AugAssign": Reader.run_augmented, "If": Reader.run_if, "For": Reader.run_for,
    "AsyncFor": Reader.run_for, "While": Reader.run_while, "With": Reader.run_with, "AsyncWith": Reader.run_with,
    "Try": Reader.run_try, "TryStar": Reader.run_try, "Match": Reader.run_match, "Import": Reader.run_import,
    "ImportFrom": Reader.run_import_from, "Global": Reader.run_global,
}
EXPRESSIONS = {
    "Name": Reader.value_name, "Attribute": Reader.value_attribute, "Call": Reader.value_call,
    "Lambda": Reader.value_lambda, "GeneratorExp": Reader.value_generator, "ListComp": Reader.value_comprehension,
    "SetComp": Reader.value_comprehension, "DictComp": Reader.value_comprehension, "List": Reader.value_sequence,
    "Tuple": Reader.value_sequence, "Set": Reader.value_sequence, "Dict": Reader.value_dict, "IfExp": Reader.value_if,
    "BoolOp": Reader.value_bool, "NamedExpr": Reader.value_named, "Await": Reader.value_await,
    "Subscript": Reader.value_subscript, "Constant": Reader.value_constant, "Num": Reader.value_constant,
    "Str": Reader.value_constant, "Bytes": Reader.value_constant, "NameConstant": Reader.value_constant,
}
BUILTINS = set(dir(__builtins__))


# ---- the program's text

def parse(text, file):
    # PyCF_ONLY_AST: nothing is made that could run. Bytes are decoded by their coding line.
    return compile(text, file, "exec", _ast.PyCF_ONLY_AST, True)


def parse_file(file):
    with open(file, "rb") as stream:
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError("larger than %d bytes" % MOST_BYTES)
    return parse(text, file)


def find_module(name):
    """The file of `-m name`, and whether a worker imports it: not the __main__ of a package."""
    for folder in [os.getcwd()] + os.environ.get("PYTHONPATH", "").split(os.pathsep):
        path = os.path.join(folder or os.getcwd(), *name.split("."))
        if os.path.isfile(path + ".py"):
            return path + ".py", folder, True
        if os.path.isfile(os.path.join(path, "__main__.py")):
            return os.path.join(path, "__main__.py"), folder, False
    return None, None, True


def json_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        parts = []
        for character in value:
            code = ord(character)
            if 32 <= code < 127 and character not in '"\\':
                parts.append(character)
            elif code < 65536:
                # A lone surrogate stands for a byte of a file's name that is not UTF-8.
                parts.append("\\u%04x" % (65533 if 0xD800 <= code < 0xE000 else code))
            else:
                code -= 65536
                parts.append("\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 1023)))
        return '"' + "".join(parts) + '"'
    if isinstance(value, dict):
        return "{" + ",".join(json_text(key) + ":" + json_text(part) for key, part in value.items()) + "}"
    return "[" + ",".join(json_text(part) for part in value) + "]"


def locate(kind, name):
    """(file, folder of its own modules, whether a worker imports it, what is wrong)"""
    if kind == "module":
        file, folder, imported = find_module(name)
        return file or name, folder, imported, None if file else "not a module of the working folder or of PYTHONPATH, so not read"
    if os.path.isdir(name):
        file = os.path.join(name, "__main__.py")
        wrong = None if os.path.isfile(file) else "a folder without a __main__.py"
        return file, name, False, wrong
    return name, os.path.dirname(name), True, None


def read_program(kind, name):
    result = {"program": kind, "python": "%d.%d.%d" % sys.version_info[:3],
              "default_method": "forkserver" if sys.version_info >= (3, 14) else "fork"}
    if kind == "stdin":
        fact = {"kind": "main-unreadable", "file": "<stdin>", "what": "standard input"}
        result.update(file="<stdin>", main_imported=False, complete=False, facts=[fact])
        return result
    if kind == "code":
        file, folder, imported, wrong = "<string>", "", False, None
    else:
        file, folder, imported, wrong = locate(kind, name)
    result.update(file=file, main_imported=imported)
    if wrong:
        return {"file": file, "error": wrong}
    try:
        tree = parse(name.encode("utf-8", "surrogateescape"), file) if kind == "code" else parse_file(file)
    except SyntaxError as error:
        result.update(error=str(error.msg), error_line=error.lineno or 0, is_syntax_error=True)
        return result
    except OSError as error:
        return {"file": file, "error": error.strerror or str(error)}
    except (ValueError, MemoryError, RecursionError) as error:
        result.update(error=str(error) or type(error).__name__)
        return result
    reader = Reader(folder, imported, result["default_method"])
    module = Module("__main__", file)
    reader.modules[os.path.join(folder, os.path.basename(file))] = module
    try:
        complete = reader.read(tree, module)
    except RecursionError:
        complete = False
    result.update(complete=complete, own_files=reader.own_files, files_left_out=reader.files_left_out,
                  facts=reader.facts)
    return result


if __name__ == "__main__":
    sys.setrecursionlimit(4000)
    if sys.version_info < (3, 6):
        print(json_text({"python": "%d.%d.%d" % sys.version_info[:3]}))
    else:
        print(json_text(read_program(sys.argv[1], sys.argv[2])))
