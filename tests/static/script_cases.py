"""Programs as people write them, for the static pass: command lines, examples of libraries, notebooks, and all the ways
to say that a line is for the main process alone. As in cases.py."""

from cases import BOOTSTRAP, case

# ---- how many workers a loader has

case("workers-in-unknown-options", """
import json
from torch.utils.data import DataLoader
with open("options.json") as file: options = json.load(file)
for batch in DataLoader([1, 2], **options):  # DLP0401
    pass
""", """
import json
from torch.utils.data import DataLoader
with open("options.json") as file: options = json.load(file)
for batch in DataLoader([1, 2], **options, num_workers=0): pass
if __name__ == "__main__":
    for batch in DataLoader([1, 2], **options): pass
""", BOOTSTRAP, files={"options.json": ('{"num_workers": 1}', '{}')}, torch=True)

case("workers-in-unknown-arguments", """
from torch.utils.data import DataLoader
def read(): return eval("[[1, 2], 1, False, None, None, 1]")
loader = DataLoader(*read())
for batch in loader:  # DLP0401
    pass
""", """
from torch.utils.data import DataLoader
loader = DataLoader(*[[1, 2], 1, False, None, None, 0])
for batch in loader: pass
""", BOOTSTRAP, torch=True)

# As the examples of PyTorch have it.
MNIST = """
import argparse
import torch
from torch.utils.data import DataLoader
def train(loader):
    for data, target in loader: pass
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1)
    args = parser.parse_args()
    train_kwargs = {"batch_size": args.batch_size}
    test_kwargs = {"batch_size": args.batch_size}
    if %s:
        cuda_kwargs = {"num_workers": 1, "shuffle": True}
        train_kwargs.update(cuda_kwargs)
        test_kwargs.update(cuda_kwargs)
    train(DataLoader([(1, 2), (3, 4)], **train_kwargs))
    train(DataLoader([(1, 2), (3, 4)], **test_kwargs))
"""
case("workers-in-options-that-are-updated", MNIST % "True" + "main()  # DLP0401\n",
     MNIST % "torch.cuda.is_available()" + "if __name__ == '__main__':\n    main()\n", BOOTSTRAP, torch=True)

case("workers-in-options-by-a-condition", """
import sys
from torch.utils.data import DataLoader
options = {"num_workers": 1} if len(sys.argv) < 9 else {}
for batch in DataLoader([1, 2], **options):  # DLP0401
    pass
""", """
import sys
from torch.utils.data import DataLoader
options = {"batch_size": 1} if len(sys.argv) < 9 else {}
options["shuffle"] = False
options = {**options, "drop_last": True}
options = dict(options, pin_memory=False)
for batch in DataLoader([1, 2], **options): pass
""", BOOTSTRAP, torch=True)

case("workers-through-a-factory", """
from torch.utils.data import DataLoader
def make(samples, *args, **kwargs):
    kwargs.setdefault("shuffle", True)
    return DataLoader(samples, *args, **kwargs)
def both(**options):
    return [make([1, 2], **options), make([3, 4], **options)]
for loader in both(num_workers=1):
    for batch in loader:  # DLP0401
        pass
""".replace("for loader in both(num_workers=1):\n    for batch in loader:  # DLP0401",
            "for loader in both(num_workers=1):  # DLP0401\n    for batch in loader:"), """
from torch.utils.data import DataLoader
def make(samples, *args, **kwargs):
    kwargs.setdefault("shuffle", True)
    return DataLoader(samples, *args, **kwargs)
def both(**options):
    return [make([1, 2], **options), make([3, 4], **options)]
for loader in both(batch_size=1):
    for batch in loader: pass
""", BOOTSTRAP, torch=True)

case("workers-of-a-partial", """
from functools import partial
from torch.utils.data import DataLoader as DL
make = partial(DL, batch_size=1, num_workers=1)
for batch in make([1, 2]):  # DLP0401
    pass
""", """
from functools import partial
from torch.utils.data import DataLoader as DL
make = partial(DL, batch_size=1, num_workers=1)
for batch in make([1, 2], num_workers=0): pass
""", BOOTSTRAP, torch=True)

case("workers-of-a-dataclass", """
from dataclasses import dataclass
from torch.utils.data import DataLoader
@dataclass
class Options:
    batch_size: int = 1
    workers: int = 0
options = Options(1, 1)
for batch in DataLoader([1, 2], num_workers=options.workers):  # DLP0401
    pass
""", """
from dataclasses import dataclass
from torch.utils.data import DataLoader
@dataclass
class Options:
    batch_size: int = 1
    workers: int = 0
options = Options(1)
for batch in DataLoader([1, 2], num_workers=options.workers): pass
""", BOOTSTRAP, torch=True)

case("workers-of-a-subclass", """
from torch.utils.data import DataLoader
class Repeated(DataLoader):
    def __init__(self, *args, **kwargs):
        super(Repeated, self).__init__(*args, **kwargs)
    def __iter__(self):
        for batch in super().__iter__(): yield batch
for batch in Repeated([1, 2], num_workers=1):  # DLP0401
    pass
""", """
from torch.utils.data import DataLoader
class Repeated(DataLoader):
    def __init__(self, *args, **kwargs):
        super(Repeated, self).__init__(*args, **kwargs)
    def __iter__(self):
        for batch in super().__iter__(): yield batch
for batch in Repeated([1, 2], batch_size=2): pass
""", BOOTSTRAP, torch=True)

# ---- programs that are called in other ways than main()

HEAD = """
import multiprocessing as mp
import sys
def work(): pass
def start():
    process = mp.Process(target=work)
    process.start()
    process.join()
"""
MAIN = HEAD + """
def main():
    start()
    return 0
"""


def called(name, text, healthy=None, head=MAIN, shows=BOOTSTRAP, files=None):
    """A line that calls main() comes with "# DLP0401"; its twin stands under a guard."""
    bare = text.replace("  # DLP0401", "")
    guarded = 'if __name__ == "__main__":\n    ' + bare.strip().replace("\n", "\n    ") + "\n"
    case("called-" + name, head + text, head + (healthy or guarded), shows, files=files)


called("raise-system-exit", "raise SystemExit(main())  # DLP0401\n")
called("sys-exit", "sys.exit(main())  # DLP0401\n")
called("in-an-expression", "status = 1 + (main() or 0)  # DLP0401\n")
called("in-an-assert", "assert main() == 0  # DLP0401\n")
called("in-a-try", "try:\n    main()\nexcept KeyboardInterrupt:\n    sys.exit(130)\n".replace("try:", "try:  # DLP0401"))
called("in-a-comprehension", "results = [main() for _ in range(1)]  # DLP0401\n")
called("by-name", "main.__call__() if False else {'main': main}['main']()  # DLP0401\n")
called("by-getattr", "getattr(sys.modules, 'x', None) or main()  # DLP0401\n")
called("in-a-thread", "import threading\nthread = threading.Thread(target=main)\nthread.start()  # DLP0401\nthread.join()\n",
       shows=None)
called("through-a-decorator", """
import functools
def logged(function):
    @functools.wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
@logged
def again(): return main()
again()  # DLP0401
""", """
import functools
def logged(function):
    @functools.wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
@logged
def again(): return main()
""")
called("from-an-own-module", """
from package.command import run
raise SystemExit(run(["x"]))  # DLP0401
""", """
from package.command import run
if __name__ == "__main__":
    raise SystemExit(run(["x"]))
""", files={"package/__init__.py": ("", ""), "package/command.py": (("from . import jobs\n"
            "def run(words):\n    if words: return jobs.start()\n",) * 2), "package/jobs.py": ((HEAD,) * 2)}, head="")
called("by-argparse", """
import argparse
parser = argparse.ArgumentParser()
commands = parser.add_subparsers()
train = commands.add_parser("train")
train.set_defaults(func=lambda args: main())
args = parser.parse_args(["train"])
args.func(args)  # DLP0401
""", """
import argparse
parser = argparse.ArgumentParser()
commands = parser.add_subparsers()
train = commands.add_parser("train")
train.set_defaults(func=lambda args: main())
args = parser.parse_args(["train"])
if __name__ == "__main__":
    args.func(args)
""")
called("click", """
import click
@click.command()
@click.option("--count", default=1)
def cli(count):
    main()
cli()  # DLP0401
""", """
import click
@click.command()
@click.option("--count", default=1)
def cli(count):
    main()
if __name__ == "__main__":
    cli()
""")
called("click-group", """
import click
@click.group()
def cli(): pass
@cli.command()
def train(): main()
cli.main()  # DLP0401
""", """
import click
@click.group()
def cli(): pass
@cli.command()
def train(): main()
cli.add_command(train)
""", shows=None)
called("typer", """
import typer
app = typer.Typer()
@app.command()
def train(): main()
app()  # DLP0401
""", """
import typer
app = typer.Typer()
@app.command()
def train(): main()
if __name__ == "__main__":
    app()
""", shows=None)
called("absl", "from absl import app\napp.run(lambda argv: main())  # DLP0401\n", shows=None)
called("fire", "import fire\nfire.Fire(main)  # DLP0401\n", shows=None)
called("hydra", """
import hydra
@hydra.main(config_path=None)
def train(config): main()
train()  # DLP0401
""", """
import hydra
@hydra.main(config_path=None)
def train(config): main()
if __name__ == "__main__":
    train()
""", shows=None)
called("asyncio", """
import asyncio
async def serve(): main()
asyncio.run(serve())  # DLP0401
""", """
import asyncio
async def serve(): main()
if __name__ == "__main__":
    asyncio.run(serve())
""")
called("optuna", """
import optuna
def objective(trial): return main()
study = optuna.create_study(direction="minimize")
study.optimize(objective, n_trials=1)  # DLP0401
""", """
import optuna
def objective(trial): return main()
study = optuna.create_study(direction="minimize")
if __name__ == "__main__":
    study.optimize(objective, n_trials=1)
""", shows=None)
# A server calls its views when somebody asks, not while it is imported.
case("called-by-nobody", "", MAIN + """
import atexit, signal
from flask import Flask
app = Flask(__name__)
@app.route("/")
def view(): main()
atexit.register(print)
signal.signal(signal.SIGUSR1, lambda *_: main())
if __name__ == "__main__":
    app.run()
""")

# ---- classes of processes


def started(name, text, healthy=None, shows=BOOTSTRAP):
    bare = text.replace("  # DLP0401", "")
    head, _, last = bare.rpartition("#----\n")
    guarded = head + 'if __name__ == "__main__":\n    ' + last.strip().replace("\n", "\n    ") + "\n"
    case("started-" + name, text.replace("#----\n", ""), healthy or guarded, shows)


started("class-of-a-context", """
import multiprocessing
class Worker(multiprocessing.get_context("spawn").Process):
    def run(self): pass
#----
worker = Worker()
worker.start()  # DLP0401
worker.join()
""")
started("class-of-a-named-context", """
import multiprocessing
context = multiprocessing.get_context("spawn")
class Base(context.Process):
    def __init__(self, name):
        super().__init__(name=name, daemon=True)
class Worker(Base):
    def __init__(self): Base.__init__(self, "x")
    def run(self): pass
#----
workers = [Worker() for _ in range(2)]
for worker in workers:  # DLP0401
    worker.start()
for worker in workers: worker.join()
""")
started("class-of-torch", """
import torch.multiprocessing as mp
class Worker(mp.Process):
    def start(self):
        super().start()
    def run(self): pass
#----
Worker().start()  # DLP0401
""", shows=None)
started("class-by-the-old-call", """
import multiprocessing
class Worker(multiprocessing.Process):
    def __init__(self, queue):
        multiprocessing.Process.__init__(self)
        self.queue = queue
    def run(self): pass
#----
processes = {"a": Worker(1), "b": Worker(2)}
for process in processes.values():  # DLP0401
    process.start()
[process.join() for process in processes.values()]
""")
started("class-of-its-method", """
from multiprocessing.context import SpawnProcess
#----
process = SpawnProcess(target=print)
process.start()  # DLP0401
process.join()
""")
started("name-of-a-context", """
import multiprocessing
Process = multiprocessing.get_context("spawn").Process
def f(): pass
#----
for i, process in enumerate([Process(target=f), Process(target=f)]):  # DLP0401
    process.start()
    process.join()
""")
started("mapped", """
import multiprocessing
def f(): pass
def begin(process):
    process.start()
    return process
#----
processes = list(map(begin, (multiprocessing.Process(target=f) for _ in range(2))))  # DLP0401
processes[0].join()
""")
case("started-by-fork", "", """
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
def f(): pass
class Worker(get_context("fork").Process):
    def run(self): pass
ForkProcess(target=f).start()
Worker().start()
""")
started("executor-in-a-loop", """
import asyncio
from concurrent.futures import ProcessPoolExecutor
def f(): return 1
async def main():
    with ProcessPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, f)
#----
asyncio.run(main())  # DLP0401
""")
started("pool-of-its-own", """
import multiprocessing.pool
class Pool(multiprocessing.pool.Pool):
    pass
#----
with Pool(1) as pool: print(pool.map(abs, [1]))  # DLP0401
""")

# ---- guards: what a test says of __name__ in a worker


def guard(name, text, is_guard=True, shows=BOOTSTRAP, since=(3, 6)):
    """`text` has the line that starts processes; or, with is_guard=False, that line is to be found."""
    if is_guard:
        case("guard-" + name, "", HEAD + text, since=since)
    else:
        case("no-guard-" + name, HEAD + text, HEAD, shows, since=since)


guard("and", '__name__ == "__main__" and start()\n')
guard("reversed", 'if "__main__" == __name__: start()\n')
guard("in-a-tuple", 'if __name__ in ("__main__",): start()\n')
guard("in-a-set", 'if __name__ not in {"x", "__mp_main__"}: start()\n')
guard("not", 'if not __name__ != "__main__": start()\n')
guard("exit", 'if __name__ != "__main__": sys.exit()\nstart()\n')
guard("raise", 'if __name__ != "__main__":\n    raise ImportError("a script")\nstart()\n')
guard("or-exit", '__name__ == "__main__" or sys.exit(0)\nstart()\n')
guard("else", 'if __name__ != "__main__":\n    pass\nelse:\n    start()\n')
guard("elif", 'if __name__ == "__mp_main__":\n    pass\nelif len(sys.argv) < 9:\n    start()\n')
guard("expression", 'start() if __name__ == "__main__" else None\n')
guard("name-of-it", 'MAIN = "__main__"\nis_main = __name__ == MAIN\nif is_main and len(sys.argv) < 9:\n    start()\n')
guard("function", 'def is_main(): return __name__ == "__main__"\nif is_main(): start()\n')
guard("function-that-leaves", 'def check():\n    if __name__ != "__main__": sys.exit(0)\ncheck()\nstart()\n')
guard("text", 'if __name__.startswith("__main"): start()\n')
guard("formatted", 'if f"{__name__}" == "__main__": start()\n')
guard("both", 'if __name__ == "__main__" and (len(sys.argv) < 9 or print("x")): start()\n')
guard("while", 'while __name__ == "__main__":\n    start()\n    break\n')
guard("assert", 'assert __name__ == "__main__"\nstart()\n')
guard("nested", 'if len(sys.argv) < 9:\n    if __name__ != "__main__":\n        sys.exit(0)\nelse:\n    sys.exit(1)\nstart()\n')
guard("comprehension", '[start() for _ in range(1) if __name__ == "__main__"]\n')
guard("or", 'if __name__ == "__main__" or len(sys.argv) < 9: start()  # DLP0401\n', False)
guard("branch", 'if __name__ == "__main__":\n    pass\nelse:  # (the line of the "if" counts)\n    start()\n'.replace(
    'if __name__ == "__main__":', 'if __name__ == "__main__":  # DLP0401'), False, None)
guard("print", 'if __name__ != "__main__":\n    print("imported")\nstart()  # DLP0401\n', False)
guard("other-module", 'if __name__ != "helper": start()  # DLP0401\n', False)
guard("started-with", 'if __name__.endswith("main__"): start()  # DLP0401\n', False)
guard("some-exit", 'if __name__ != "__main__" and len(sys.argv) > 9: sys.exit()\nstart()  # DLP0401\n', False)
guard("caught", 'try:\n    if __name__ != "__main__": sys.exit()\nexcept SystemExit:\n    pass\nstart()  # DLP0401\n', False)
guard("suppressed", 'import contextlib\nwith contextlib.suppress(SystemExit):\n'
      '    if __name__ != "__main__": sys.exit()\nstart()  # DLP0401\n', False)
guard("own-exit", 'def check():\n    if __name__ != "__main__": return\n    print("main")\ncheck()\nstart()  # DLP0401\n', False)
guard("variable-named-main", 'main = "__main__"\nif main == "__main__": start()  # DLP0401\n', False)
guard("loop", 'for i in range(2):\n    if __name__ != "__main__": continue\nstart()  # DLP0401\n', False)
guard("match", """
match __name__:
    case "__main__": start()
    case _: pass
""", since=(3, 10))
guard("match-exit", """
match __name__:
    case "__main__" | "main": pass
    case other: sys.exit(0)
start()
""", since=(3, 10))
guard("match-all", """
match __name__:  # DLP0401
    case "x": pass
    case _: start()
""", False, since=(3, 10))
case("guard-of-an-own-module", "", "import helper\nimport sys\nif helper.is_main: helper.start()\n",
     files={"helper.py": (("is_main = __name__ == '__main__'" + HEAD,) * 2)})
case("other-platforms", "", HEAD + """
import os
if sys.platform == "win32" or os.name == "nt": start()
if sys.platform.startswith("darwin"): start()
if sys.version_info < (3, 5): start()
if sys.version_info[0] == 2: start()
""")

# ---- libraries that use loaders

LIGHTNING = """
import lightning as L
from torch.utils.data import DataLoader
class Data(L.LightningDataModule):
    def __init__(self, num_workers=4):
        super().__init__()
        self.num_workers = num_workers
    def train_dataloader(self):
        return DataLoader([1, 2], num_workers=self.num_workers)
    def val_dataloader(self):
        return [DataLoader([1, 2], num_workers=self.num_workers)]
trainer = L.Trainer(max_epochs=1)
"""
case("lightning-data-module", LIGHTNING + "trainer.fit(object(), datamodule=Data())  # DLP0401\n",
     LIGHTNING + "trainer.fit(object(), datamodule=Data(0))\nif __name__ == '__main__':\n    trainer.fit(object(), Data())\n")
case("lightning-loader", LIGHTNING + "trainer.validate(None, DataLoader([1], num_workers=2))  # DLP0401\n",
     LIGHTNING + "trainer.validate(None, DataLoader([1]))\nloader = DataLoader([1], num_workers=2)\n")
TRANSFORMERS = """
from transformers import Trainer, TrainingArguments
options = TrainingArguments("out", dataloader_num_workers=%s)
trainer = Trainer(None, options, train_dataset=[1])
trainer.train()%s
"""
case("transformers", TRANSFORMERS % (2, "  # DLP0401"), TRANSFORMERS % (0, ""))
case("torchvision-dataset", """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
steps = transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: x * 2)])
samples = datasets.CIFAR10("data", train=True, transform=steps)
loader = DataLoader(samples, num_workers=2)  # DLP0402
""", """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
def twice(x): return x * 2
steps = transforms.Compose([transforms.ToTensor(), transforms.Lambda(twice)])
samples = datasets.CIFAR10("data", train=True, transform=steps)
loader = DataLoader(samples, num_workers=2)
""")
case("notebook", """
# In[1]:
get_ipython().run_line_magic("matplotlib", "inline")
from torch.utils.data import *
loader = DataLoader([1, 2], num_workers=2)
# In[2]:
batches = iter(loader)  # DLP0401
first = next(batches)
""", """
# In[1]:
get_ipython().run_line_magic("matplotlib", "inline")
from torch.utils.data import *
loader = DataLoader([1, 2], num_workers=0)
# In[2]:
batches = iter(loader)
first = next(batches)
""")
case("loader-of-a-property", """
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, workers): self.workers = workers
    @property
    def loader(self): return self.make([1, 2], self.workers)
    @staticmethod
    def make(samples, workers): return DataLoader(samples, num_workers=workers)
    @classmethod
    def main(cls, workers):
        for batch in cls(workers).loader: pass
Trainer.main(1)  # DLP0401
""", """
from torch.utils.data import DataLoader
class Trainer:
    def __init__(self, workers): self.workers = workers
    @property
    def loader(self): return self.make([1, 2], self.workers)
    @staticmethod
    def make(samples, workers): return DataLoader(samples, num_workers=workers)
    @classmethod
    def main(cls, workers):
        for batch in cls(workers).loader: pass
Trainer.main(0)
""", BOOTSTRAP, torch=True)
# What a class of a library says itself of how it is pickled is not known.
case("pickled-by-a-library", "", """
import multiprocessing
from multiprocessing.queues import Queue
import threading
class Tasks(Queue):
    def __init__(self, context):
        self.lock = threading.Lock()
        super().__init__(1, ctx=context)
def f(tasks): pass
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    context.Process(target=f, args=(Tasks(context),)).start()
""")
called("context-manager", """
import contextlib
@contextlib.contextmanager
def running():
    process = mp.Process(target=work)
    yield process
    process.join()
with running() as process:  # DLP0401
    process.start()
""", """
import contextlib
@contextlib.contextmanager
def running():
    process = mp.Process(target=work)
    yield process
with running() as process:
    print(process.name)
""")
case("yield-from-a-loader", """
from torch.utils.data import DataLoader
def batches():
    yield from DataLoader([1, 2], num_workers=1)
for batch in batches():  # DLP0401
    pass
""", """
from torch.utils.data import DataLoader
def batches():
    yield from DataLoader([1, 2], num_workers=1)
epochs = batches()
""", BOOTSTRAP, torch=True)
case("deleted-attribute", """
import multiprocessing, threading
class Work:
    def __init__(self):
        self.lock = threading.Lock()
    def __call__(self): pass
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=Work())
    process.start()  # DLP0402
""", """
import multiprocessing, threading
class Work:
    def __init__(self):
        self.lock = threading.Lock()
        del self.lock
    def __call__(self): pass
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=Work())
    process.start()
""", "pickle")
case("relative-import", "", "", BOOTSTRAP, command=("-m", "package.mod"), files={
    "package/__init__.py": ("", ""), "package/jobs.py": ((HEAD,) * 2),
    "package/mod.py": ("from .jobs import start\nfrom . import jobs\nstart()  # DLP0401\n",
                       "from .jobs import start\nfrom . import jobs\nif __name__ == '__main__': jobs.start()\n")})
case("map-and-its-results", """
import multiprocessing
class Work:
    def __init__(self): self.steps = map(lambda x: x, [1])
    def __call__(self): pass
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=Work())
    process.start()  # DLP0402
""", """
import multiprocessing
class Work:
    def __init__(self):
        self.steps = list(map(lambda x: x, [1]))
        self.some = [x for x in filter(lambda x: x, [1])]
        self.sorted = sorted([2, 1], key=lambda x: x)
    def __call__(self): pass
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=Work())
    process.start()
    process.join()
""", "lambda")
BY_NAME = """
import multiprocessing as mp
def command():
    def work(): pass
    process = mp.Process(target=work)
    process.start()%s
    process.join()
if __name__ == "__main__":
    mp.set_start_method("%s")
    globals()["command"]()
"""
case("method-of-the-whole-program", BY_NAME % ("  # DLP0402", "spawn"), BY_NAME % ("", "fork"), "local object")
