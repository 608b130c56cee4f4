"""What the follower of a program's text knows of an object, and of libraries: part of follow_script.py, before it."""

import _ast
import os
import sys


def node_types(*names):
    """Those that this Python has."""
    return tuple(getattr(_ast, name) for name in names if hasattr(_ast, name))


Attribute, Call, Dict, Expr, Name, Or, Starred = node_types("Attribute", "Call", "Dict", "Expr", "Name", "Or", "Starred")
List, Tuple, Subscript, expr = node_types("List", "Tuple", "Subscript", "expr")
CONSTANTS = node_types("Constant", "Num", "Str", "Bytes", "NameConstant", "Ellipsis")
DEFINITIONS = node_types("FunctionDef", "AsyncFunctionDef", "ClassDef", "Lambda")

MOST_ITEMS = 64  # of a list or a dict of the program


# ---- values: what is known of an object

class External:
    """Something of a module that is not read: "torch.utils.data.DataLoader"."""

    def __init__(self, name, is_module=False, method=None):
        self.name = name
        self.is_module = is_module
        self.method = method  # start method of the context that it was taken from


class Constant:
    def __init__(self, value):
        self.value = value


UNKNOWN = object()
UNKNOWN_METHOD = "?"  # a start method that the program chooses when it runs


class Told:
    """What is known for sure, and may differ: (in the program's own process, in a worker that imports its main
    module). `__name__ == "__main__"` is (True, False)."""

    def __init__(self, own, worker):
        self.values = (own, worker)


class Hidden:
    """What a caller may have given, in * or ** whose content is not known."""


HIDDEN = Hidden()


class Made:
    """What a library's function or class gave: Trainer(...), parser.parse_args(). Its `owner` is what it was got from."""

    def __init__(self, name, arguments=(), keywords=None, owner=None):
        self.name = name
        self.arguments = arguments
        self.keywords = keywords or {}
        self.owner = owner
        self.commands = []  # functions of the program that it calls when it is called itself
        self.defaults = owner.defaults if isinstance(owner, Made) else {}  # by argparse's set_defaults


class Part:
    """A method of what a library made, or of what one of its decorators made of a function."""

    def __init__(self, owner, name):
        self.owner = owner
        self.name = name


class Given(list):
    """Arguments of a call. It is open if there may be more of them."""

    is_open = False


class Named(dict):
    """Keyword arguments of a call."""

    is_open = False


class Function:
    def __init__(self, node, module, scope, name):
        self.node = node
        self.module = module
        self.scope = scope  # where it was defined
        self.name = name
        self.is_nested = scope.kind == "function"
        self.is_lambda = type(node) is _ast.Lambda
        self.under_guard = False
        self.decorated = bool(getattr(node, "decorator_list", ()))
        self.binding = None  # "staticmethod", "classmethod", "property"
        self.commands = []  # as of Made


class Class:
    def __init__(self, node, module, scope, bases):
        self.node = node
        self.module = module
        self.bases = bases
        self.name = node.name
        self.is_nested = scope.kind == "function"
        self.under_guard = False
        self.members = {}
        self.fields = []  # names with annotations, as a dataclass has them
        self.order = None  # it and its bases, as a member is looked for


class Method:
    def __init__(self, function, owner):
        self.function = function
        self.owner = owner


class Super:
    """super() of an object, in a method of that class."""

    def __init__(self, instance, cls):
        self.instance = instance
        self.cls = cls


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
        self.is_hidden = False  # whether it has workers is in * or ** whose content is not known
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

    def __init__(self, run, scope):
        self.run = run
        self.scope = scope


class Box:
    """Something that holds others: (how a path names them, value). Of a "list" each place is known, of "some" that it
    holds the likes of these; a "dict" may be open."""

    def __init__(self, items, kind="holder"):
        self.items = items
        self.kind = kind
        self.is_open = False
        self.function = None  # of map and filter, whose results are pickled with it

    def set(self, label, value):
        for i, item in enumerate(self.items):
            if item[0] == label and label != "[...]":
                self.items[i] = (label, value)
                return
        if len(self.items) < MOST_ITEMS:
            self.items.append((label, value))

    def get(self, label):
        for item in self.items:
            if item[0] == label:
                return item[1]
        return None


class Partial:
    """functools.partial"""

    def __init__(self, function, arguments, keywords):
        self.function = function
        self.arguments = arguments
        self.keywords = keywords


class OnCuda:
    """A tensor or module on a GPU, or (is_device) the name of one."""

    def __init__(self, is_device=False):
        self.is_device = is_device


class Either:
    def __init__(self, values, truth=(None, None)):
        self.values = values
        self.truth = truth


class Scope:
    def __init__(self, kind, parent):
        self.kind = kind  # "module", "class" or "function"
        self.parent = parent
        self.names = {}
        self.elsewhere = {}  # names of a global or nonlocal statement: whose they are
        self.owner = None  # of a class's body: the class
        self.function = None  # of a function's: it, and its first argument
        self.receiver = None

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
        self.exits = []  # of each return: whether a worker that imports does not come to it


class Stop(Exception):
    """Enough was walked through."""


# ---- names of libraries

LOADERS = {
    "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "torch_geometric.loader.DataLoader",
    "torch_geometric.data.DataLoader", "monai.data.DataLoader", "monai.data.ThreadDataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
}
# With the start method of their own.
PROCESSES = {
    "multiprocessing.Process": None, "multiprocessing.process.BaseProcess": None, "multiprocessing.SpawnProcess": "spawn",
    "multiprocessing.ForkProcess": "fork", "multiprocessing.ForkServerProcess": "forkserver",
}
CONTEXTS = {"SpawnContext": "spawn", "ForkContext": "fork", "ForkServerContext": "forkserver", "DefaultContext": None}
POOLS = {"multiprocessing.Pool", "multiprocessing.pool.Pool"}
EXECUTORS = {"concurrent.futures.ProcessPoolExecutor", "concurrent.futures.process.ProcessPoolExecutor"}
MANAGERS = {"multiprocessing.managers.BaseManager", "multiprocessing.managers.SyncManager",
            "multiprocessing.managers.SharedMemoryManager"}
SPAWNERS = {"multiprocessing.spawn", "multiprocessing.start_processes", "multiprocessing.spawn.spawn"}
# What takes the default context for good.
CONTEXT_USERS = {
    "Queue", "JoinableQueue", "SimpleQueue", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Event",
    "Barrier", "Value", "Array", "Pool", "Manager", "get_start_method",
}
POOL_CALLS = {"apply", "apply_async", "map", "map_async", "imap", "imap_unordered", "starmap", "starmap_async",
              "submit"}
HOOKS = ("__getstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
# Objects of these libraries' classes are pickled with all of their attributes.
PICKLED_AS_A_WHOLE = ("builtins.", "torch.", "torchvision.", "typing.", "abc.", "enum.", "collections.abc.",
                      "lightning.", "pytorch_lightning.")

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
    "Compose": (".transforms", None), "Lambda": (".lambd", None),
    "RandomApply": (".transforms", None), "RandomChoice": (".transforms", None), "RandomOrder": (".transforms", None),
    "torch.utils.data.Subset": (".dataset", None), "torch.utils.data.ConcatDataset": (".datasets", None),
    "torch.utils.data.ChainDataset": (".datasets", None), "collections.defaultdict": (".default_factory", None),
}
TRANSFORMS = ("torchvision.transforms.", "torchvision.transforms.v2.", "monai.transforms.")
DATASET_KEEPS = ("loader", "target_transform", "transform", "transforms")  # of torchvision's datasets
# They iterate over what they are given, at once.
ITERATES = {"iter", "next", "enumerate", "list", "tuple", "set", "frozenset", "sorted", "reversed", "zip", "map", "sum",
            "max", "min", "dict", "all", "any", "filter"}
# They give out the items of what they are given.
KEEP_ITEMS = {"iter", "list", "tuple", "set", "frozenset", "sorted", "reversed"}
# What gives out what it is given, one by one.
WRAPPERS = {"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.autonotebook.tqdm", "rich.progress.track"}
# Of a library's object: gives back loaders like those that it is given (accelerate, lightning).
PREPARES = {"prepare", "prepare_data_loader", "setup_dataloaders"}
# They call the function that they are given: (its position, its name).
RUNNERS = {
    "absl.app.run": (0, "main"), "tensorflow.compat.v1.app.run": (0, "main"), "typer.run": (0, "function"),
    "fire.Fire": (0, "component"), "fire.core.Fire": (0, "component"), "tyro.cli": (0, "f"), "plac.call": (0, "obj"),
    "argh.dispatch_command": (0, "function"), "defopt.run": (0, "funcs"), "clize.run": (0, "fn"),
    "jsonargparse.CLI": (0, "components"), "jsonargparse.auto_cli": (0, "components"), "wandb.agent": (1, "function"),
    "hyperopt.fmin": (0, "fn"), "trio.run": (0, "async_fn"), "anyio.run": (0, "func"), "timeit.timeit": (0, "stmt"),
}
# Of what they made: these methods call the functions that its decorators have registered ...
COMMANDS = {"click", "rich_click", "typer", "sacred", "cloup", "asyncclick"}
RUN_COMMANDS = {"main", "run", "run_commandline", "invoke"}
REGISTER = {"add_command", "add_typer"}
# ... and this calls the one that it is given.
STUDY = "optuna.create_study()"
# They iterate over loaders, and over what these methods of what they are given return.
TRAINERS = {"pytorch_lightning.Trainer()", "lightning.Trainer()", "lightning.pytorch.Trainer()"}
TRAINER_HOOKS = {
    "fit": ("setup", "train_dataloader", "val_dataloader"), "validate": ("setup", "val_dataloader"),
    "test": ("setup", "test_dataloader"), "predict": ("setup", "predict_dataloader"),
}
DECORATORS = {"builtins.staticmethod": "staticmethod", "builtins.classmethod": "classmethod",
              "builtins.property": "property", "functools.cached_property": "property"}
TRANSFORMERS_TRAINERS = {"transformers.Trainer()", "transformers.Seq2SeqTrainer()"}
TRANSFORMERS_OPTIONS = {"transformers.TrainingArguments()", "transformers.Seq2SeqTrainingArguments()"}
# They do not return.
EXITS = {"sys.exit", "os._exit", "os.abort", "builtins.exit", "builtins.quit", "os.execv", "os.execvp", "os.execl"}
# Their "with" goes on behind it, whatever was raised in it.
CATCH = {"contextlib.suppress()", "pytest.raises()"}
# The same in every process of this machine.
SAME_EVERYWHERE = {
    "sys.platform": sys.platform, "os.name": os.name, "sys.version_info": tuple(sys.version_info[:3]),
    "sys.version_info.major": sys.version_info[0], "sys.version_info.minor": sys.version_info[1],
    "typing.TYPE_CHECKING": False,
}
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
    return value.values if type(value) is Either else (value,)


def either(values):
    """One of these. Where one is not known, what the constants among them say does not hold."""
    known = []
    is_known = True
    for value in values:
        for one in alternatives(value):
            if one is None:
                is_known = False
            elif one not in known:
                known.append(one)
    if not is_known:
        known = [one for one in known if not isinstance(one, (Constant, Told))]
    if not known:
        return None
    return known[0] if len(known) == 1 else Either(known[:6])


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


EXTERNALS = {}


def external(name, is_module=False, method=None):
    key = name, is_module, method
    value = EXTERNALS.get(key)
    if value is None:
        if name in SAME_EVERYWHERE:
            value = Told(SAME_EVERYWHERE[name], SAME_EVERYWHERE[name])
        else:
            value = External(name, is_module, method)
        EXTERNALS[key] = value
    return value


def known(value, process):
    """Python's own object, in the program's process (0) or a worker that imports (1); UNKNOWN."""
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Told):
        return value.values[process]
    if isinstance(value, Box) and value.kind == "list":
        items = tuple(known(item, process) for _, item in value.items)
        return UNKNOWN if UNKNOWN in items else items
    return UNKNOWN


def told(function, *values):
    """What the function gives of them in each process, as far as that is known for sure."""
    if not any(isinstance(value, Told) for value in values):
        return None
    results = []
    for process in (0, 1):
        given = [known(value, process) for value in values]
        try:
            results.append(UNKNOWN if UNKNOWN in given else function(*given))
        except Exception:  # of other types, or not one: nothing is known then
            results.append(UNKNOWN)
    return Told(*results)


def truth_of(value):
    """(in the program's own process, in a worker that imports it): True, False, or None: not known. A variable's
    constant does not count: it may have another value by then."""
    if isinstance(value, Told):
        return tuple(None if one is UNKNOWN else bool(one) for one in value.values)
    return value.truth if isinstance(value, Either) else (None, None)


COMPARISONS = {
    "Eq": lambda left, right: left == right, "NotEq": lambda left, right: left != right,
    "Is": lambda left, right: left == right, "IsNot": lambda left, right: left != right,
    "In": lambda left, right: left in right, "NotIn": lambda left, right: left not in right,
    "Lt": lambda left, right: left < right, "LtE": lambda left, right: left <= right,
    "Gt": lambda left, right: left > right, "GtE": lambda left, right: left >= right,
}
TEXT_METHODS = {"startswith", "endswith", "lower", "upper", "strip"}


def is_cuda_name(value):
    for one in alternatives(value):
        if isinstance(one, OnCuda) and one.is_device:
            return True
        if (text_of(one) or "").startswith("cuda"):
            return True
    return False
