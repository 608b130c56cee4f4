"""Small programs that fail under spawn, each with a healthy twin, for the static pass.

A program's text has "# CODE" at the end of each line that a finding must name; a twin has none. `shows` is the text
of the failure that the interpreter itself gives under spawn, for the programs that can show it without torch.
"""

BOOTSTRAP = "before the current process has finished its bootstrapping phase|bootstrapping"
CASES = []


def case(name, failing, healthy, shows=None, command=("prog.py",), files=None, torch=False, since=(3, 6)):
    """`since`: the first Python that has its syntax."""
    CASES.append({"name": name, "failing": failing, "healthy": healthy, "shows": shows, "command": command,
                  "files": files or {}, "torch": torch, "since": since})


# ---- DLP0401: what starts processes is not under a main guard

case("module-level-pool", """
import multiprocessing as mp
def f(x): return x
pool = mp.Pool(1)  # DLP0401
pool.map(f, [1])
""", """
import multiprocessing as mp
def f(x): return x
if __name__ == "__main__":
    with mp.Pool(1) as pool: pool.map(f, [1])
""", BOOTSTRAP)

case("module-level-process", """
from multiprocessing import Process as Proc
def f(): pass
process = Proc(target=f)
process.start()  # DLP0401
process.join()
""", """
from multiprocessing import Process as Proc
def f(): pass
process = Proc(target=f)
if '__main__' == __name__:
    process.start()
    process.join()
""", BOOTSTRAP)

case("process-subclass", """
import multiprocessing
class Worker(multiprocessing.Process):
    def run(self): pass
worker = Worker()
worker.start()  # DLP0401
worker.join()
""", """
import multiprocessing
class Worker(multiprocessing.Process):
    def run(self): pass
def main():
    worker = Worker()
    worker.start()
    worker.join()
if __name__ == "__main__": main()
""", BOOTSTRAP)

case("executor", """
from concurrent.futures import ProcessPoolExecutor
def f(x): return x
with ProcessPoolExecutor(1) as pool:  # DLP0401
    print(list(pool.map(f, [1])))
""", """
from concurrent.futures import ProcessPoolExecutor
def f(x): return x
pool = ProcessPoolExecutor(1)
if __name__ == "__main__":
    print(list(pool.map(f, [1])))
""", BOOTSTRAP)

case("through-functions", """
import multiprocessing as mp
def f(x): return x
def inner(context):
    return context.Pool(1)
def outer():
    with inner(mp.get_context("spawn")) as pool: pool.map(f, [1])
for i in range(1):  # DLP0401
    if i == 0:
        outer()
""", """
import multiprocessing as mp
def f(x): return x
def inner(context):
    return context.Pool(1)
def outer():
    with inner(mp.get_context("spawn")) as pool: pool.map(f, [1])
if __name__ != "__main__":
    pass
else:
    outer()
""", BOOTSTRAP)

case("guard-that-returns", """
import multiprocessing as mp
def f(): pass
def main():
    if __name__ == "__mp_main__": print("worker")
    process = mp.Process(target=f)
    process.start()
    process.join()
main()  # DLP0401
""", """
import multiprocessing as mp
def f(): pass
def main():
    if __name__ != "__main__": return
    process = mp.Process(target=f)
    process.start()
    process.join()
main()
""", BOOTSTRAP)

case("guard-by-process-name", """
import multiprocessing as mp
def f(): pass
# In a worker that imports its main module this is None, too.
if mp.parent_process() is None:  # DLP0401
    process = mp.Process(target=f)
    process.start()
    process.join()
""", """
import multiprocessing as mp
def f(): pass
if mp.current_process().name == "MainProcess":
    process = mp.Process(target=f)
    process.start()
    process.join()
""", BOOTSTRAP)

case("manager", """
from multiprocessing import Manager
shared = Manager().dict()  # DLP0401
""", """
from multiprocessing import Manager, Queue, Value
tasks, count = Queue(), Value("i", 0)
if __name__ == "__main__":
    shared = Manager().dict()
""", BOOTSTRAP)

case("in-an-own-module", """
import helper  # (the line that counts is helper's)
""", """
import helper
""", BOOTSTRAP, files={"helper.py": ("""
import multiprocessing as mp
def f(): pass
process = mp.Process(target=f)
process.start()  # DLP0401
process.join()
""", """
import multiprocessing as mp
def f(): pass
if __name__ == "__main__":
    mp.Process(target=f).start()
""")})

case("loader-at-module-level", """
from torch.utils.data import DataLoader as DL, Dataset
class Samples(Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): return index
def train(batches):
    for batch in batches: pass
loader = DL(Samples(), num_workers=1)
train(loader)  # DLP0401
""", """
from torch.utils.data import DataLoader as DL, Dataset
class Samples(Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): return index
def train(batches):
    for batch in batches: pass
train(DL(Samples(), num_workers=0))
train(DL(Samples()))
loader = DL(Samples(), num_workers=1)
if __name__ == "__main__":
    train(loader)
""", BOOTSTRAP, torch=True)

case("loader-of-its-own-name", """
import torch.utils.data as data
class MyLoader(data.DataLoader):
    def __init__(self, samples, **options):
        super().__init__(samples, num_workers=1, **options)
for i, batch in enumerate(MyLoader([1, 2])):  # DLP0401
    pass
""", """
class DataLoader:
    def __init__(self, samples, num_workers): self.samples = samples
    def __iter__(self): return iter(self.samples)
class Pool:
    def map(self, function, items): return [function(item) for item in items]
for batch in DataLoader([1, 2], num_workers=4): pass
Pool().map(lambda x: x, [1])
""", BOOTSTRAP, torch=True)

case("loader-in-a-trainer", """
from torch.utils.data import DataLoader
from tqdm import tqdm
class Trainer:
    def __init__(self, loader): self.loader = loader
    def fit(self):
        for epoch in range(1): self.epoch()
    def epoch(self):
        for i, batch in enumerate(tqdm(self.loader)): pass
loader = DataLoader([1, 2], num_workers=1)
Trainer(loader).fit()  # DLP0401
""", """
from torch.utils.data import DataLoader
from tqdm import tqdm
class Trainer:
    def __init__(self, loader): self.loader = loader
    def fit(self):
        for i, batch in enumerate(tqdm(self.loader)): pass
trainer = Trainer(DataLoader([1, 2], num_workers=1))
if __name__ == "__main__":
    trainer.fit()
""", BOOTSTRAP, torch=True)

case("prepared-loader", """
from accelerate import Accelerator
from torch.utils.data import DataLoader
model, loader = object(), DataLoader([1, 2], num_workers=1)
model, loader = Accelerator().prepare(model, loader)
for batch in loader:  # DLP0401
    pass
""", """
from accelerate import Accelerator
from torch.utils.data import DataLoader
model, loader = object(), DataLoader([1, 2], num_workers=1)
model, loader = Accelerator().prepare(model, loader)
for parameter in model: pass
""")

# ---- DLP0402: what cannot be pickled

PROCESS = """
if __name__ == "__main__":
    process = mp.Process(target=f, args=(%s,))
    process.start()%s
    process.join()
"""


def sent(name, setup, value, shows, healthy_setup=None, healthy_value="1"):
    head = "import multiprocessing as mp\nimport functools, itertools, queue, sqlite3, sys, threading, types\n" \
           "def f(x): pass\n"
    case("sent-" + name, head + setup + PROCESS % (value, "  # DLP0402"),
         head + (setup if healthy_setup is None else healthy_setup) + PROCESS % (healthy_value, ""), shows)


sent("lambda", "", "lambda: 0", "lambda", healthy_value="f")
sent("named-lambda", "g = lambda: 0\n", "g", "lambda", "def g(): pass\n", "g")
sent("nested-function", "def make():\n    def inner(): pass\n    return inner\n", "make()", "local object",
     "def inner(): pass\ndef make():\n    return inner\n", "make()")
sent("local-class", "def make():\n    class Inner: pass\n    return Inner\n", "make()()", "local object",
     "class Inner: pass\ndef make():\n    return Inner\n", "make()()")
sent("generator", "", "(i for i in [])", "generator", healthy_value="iter([])")
sent("generator-function", "def g():\n    yield 1\n", "g()", "generator", healthy_value="g")
sent("open-file", "", "open('/dev/null')", "TextIOWrapper", healthy_value="open('/dev/null').name")
# A semaphore that nobody in the parent refers to is gone before the worker has it.
sent("lock", "", "threading.Lock()", "_thread.lock", "lock = mp.Lock()\n", "lock")
sent("queue", "q = queue.Queue()\n", "[q]", "_thread.lock", "q = []\n", "[q]")
sent("module", "", "sys", "module", healthy_value="sys.path")
sent("partial", "", "functools.partial(lambda a, b: a, 1)", "lambda", healthy_value="functools.partial(f, 1)")
sent("in-an-attribute", """
class Samples:
    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(":memory:")
""", "Samples('x')", "sqlite3.Connection", """
class Samples:
    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(":memory:")
    def __getstate__(self):
        return {**self.__dict__, "db": None}
""", "Samples('x')")
sent("in-a-base-class", """
class Base:
    def __init__(self): self.lock = threading.Lock()
class Samples(Base):
    def __init__(self):
        super().__init__()
        self.parts = {"a": [1]}
""", "Samples()", "_thread.lock", """
lock = mp.Lock()
class Base:
    def __init__(self): self.lock = lock
class Samples(Base):
    def __init__(self):
        super().__init__()
        self.parts = {"a": [1]}
""", "Samples()")
sent("deep", """
class Step:
    def __init__(self, function): self.function = function
class Samples:
    def __init__(self, steps): self.steps = steps
""", "Samples([Step(f), Step(lambda x: x)])", "lambda", None, "Samples([Step(f), Step(len)])")

case("task-of-a-pool", """
import multiprocessing as mp
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(lambda x: x, [1]))  # DLP0402
""", """
import multiprocessing as mp
def same(x): return x
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(same, [1]))
    with mp.get_context("fork").Pool(1, initializer=lambda: None) as pool:
        print(pool.map(same, [1]))
""", "lambda")

case("parts-of-a-loader", """
import threading
from torch.utils.data import DataLoader, Dataset
class Samples(Dataset):
    def __init__(self, transform):
        self.transform = transform
        self.lock = threading.Lock()
    def __len__(self): return 2
    def __getitem__(self, index): return index
def main(scale):
    def initialize(index): print(scale)
    loader = DataLoader(Samples(lambda x: x), num_workers=1, worker_init_fn=initialize)  # DLP0402
    for batch in loader: pass
if __name__ == "__main__":
    main(1)
""", """
import threading
from torch.utils.data import DataLoader, Dataset, Sampler
class Samples(Dataset):
    def __init__(self, transform): self.transform = transform
    def __len__(self): return 2
    def __getitem__(self, index): return index
class Order(Sampler):  # stays in the parent
    def __init__(self): self.lock = threading.Lock()
    def __iter__(self): return iter([0, 1])
    def __len__(self): return 2
def collate(batch): return batch
def main(scale):
    loader = DataLoader(Samples(collate), num_workers=1, sampler=Order(), collate_fn=collate)
    for batch in loader: pass
    for batch in DataLoader(Samples(lambda x: x), num_workers=0): pass
if __name__ == "__main__":
    main(1)
""", "pickle|local object", torch=True)

# Methods that a framework calls.
case("data-module", """
import lightning
from torch.utils.data import DataLoader
class Data(lightning.LightningDataModule):
    def __init__(self):
        super().__init__()
        self.scale = lambda x: x
    def collate(self, batch): return batch
    def train_dataloader(self):
        return DataLoader([1, 2], num_workers=4, collate_fn=self.collate)  # DLP0402
""", """
import lightning
from torch.utils.data import DataLoader
class Data(lightning.LightningDataModule):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
    def collate(self, batch): return batch
    def train_dataloader(self):
        return DataLoader([1, 2], num_workers=4, collate_fn=self.collate)
    def val_dataloader(self):
        return DataLoader([1, 2], num_workers=0, collate_fn=lambda batch: batch)
""")

# ---- DLP0403: children of daemonic processes

case("pool-in-a-pool", """
import multiprocessing as mp
def f(x): return x
def g(x):
    with mp.Pool(1) as pool:  # DLP0403
        return pool.map(f, [x])
if __name__ == "__main__":
    with mp.Pool(1) as pool:
        print(pool.map(g, [1]))
""", """
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
def f(x): return x
def g(x):
    with mp.Pool(1) as pool:
        return pool.map(f, [x])
if __name__ == "__main__":
    with ProcessPoolExecutor(1) as pool:
        print(list(pool.map(g, [1])))
""", "daemonic processes are not allowed to have children")

case("initializer", """
import multiprocessing as mp
def initialize():
    mp.Process(target=print).start()  # DLP0403
if __name__ == "__main__":
    pool = mp.Process(target=initialize)
    pool.daemon = True
    pool.start()
    pool.join()
""", """
import multiprocessing as mp
def initialize():
    mp.Process(target=print).start()
if __name__ == "__main__":
    pool = mp.Process(target=initialize)
    pool.start()
    pool.join()
""", "daemonic processes are not allowed to have children")

# ---- DLP0404: the start method is set a second time

case("set-twice", """
import multiprocessing as mp
if __name__ == "__main__":
    mp.set_start_method("spawn")
    mp.set_start_method("spawn")  # DLP0404
""", """
import multiprocessing as mp, sys
if __name__ == "__main__":
    if len(sys.argv) > 1:
        mp.set_start_method(sys.argv[1])
    else:
        mp.set_start_method("spawn")
    mp.set_start_method("spawn", force=True)
    try:
        mp.set_start_method("spawn")
    except RuntimeError:
        pass
""", "context has already been set")

case("set-after-use", """
import multiprocessing as mp
if __name__ == "__main__":
    tasks = mp.Queue()
    mp.set_start_method("spawn")  # DLP0404
""", """
import multiprocessing as mp
if __name__ == "__main__":
    tasks = mp.get_context("spawn").Queue()
    process = mp.Process(target=print)
    mp.set_start_method("spawn")
""", "context has already been set")

case("set-at-import", """
import multiprocessing as mp
mp.set_start_method("spawn")  # DLP0404
def f(): pass
if __name__ == "__main__":
    process = mp.Process(target=f)
    process.start()
    process.join()
""", """
import multiprocessing as mp
mp.set_start_method("fork")
def f(): pass
if __name__ == "__main__":
    process = mp.Process(target=f)
    process.start()
    process.join()
""", "context has already been set")

# ---- DLP0405: CUDA before the fork. Seen on a machine with a GPU alone.

case("cuda-before-fork", """
import torch
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Samples(Dataset):
    def __len__(self): return 2
    def __getitem__(self, index):
        return torch.zeros(3).to(device)  # DLP0405
if __name__ == "__main__":
    model = torch.nn.Linear(3, 3).to(device)
    for batch in DataLoader(Samples(), num_workers=1): model(batch)
""", """
import torch
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Samples(Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): return torch.zeros(3)
class OnDevice(Samples):
    def __getitem__(self, index): return torch.zeros(3).to(device)
if __name__ == "__main__":
    model = torch.nn.Linear(3, 3).to(device)
    for batch in DataLoader(Samples(), num_workers=1): model(batch.to(device))
    for batch in DataLoader(OnDevice(), num_workers=1, multiprocessing_context="spawn"): model(batch)
""")

# ---- DLP0406: every worker does the main module's work

case("heavy-at-import", """
import multiprocessing as mp
import numpy as np
table = np.load(mp.current_process().name + ".npy")  # DLP0406
def f(x): return x
if __name__ == "__main__":
    with mp.Pool(1) as pool: print(pool.map(f, [1]))
""", """
import json
import multiprocessing as mp
import numpy as np
small = np.load("small.npy")
with open("settings.json") as file: settings = json.load(file)
def f(x): return x
if __name__ == "__main__":
    table = np.load(mp.current_process().name + ".npy")
    with mp.Pool(1) as pool: print(pool.map(f, [1]))
""", files={"small.npy": ("", "x"), "settings.json": ("", "{}")})

case("heavy-without-workers", "", """
import numpy as np
table = np.load("table.npy")
""")

# ---- DLP0407: what workers do not find

case("under-the-guard", """
import multiprocessing as mp
if __name__ == "__main__":
    def f(): pass
    process = mp.Process(target=f)
    process.start()  # DLP0407
    process.join()
""", """
import multiprocessing as mp
def f(): pass
if __name__ == "__main__":
    process = mp.Process(target=f)
    process.start()
    process.join()
""", "Can't get attribute 'f'")

OWN = """
import multiprocessing as mp
def f(): pass
if __name__ == "__main__":
    process = mp.Process(target=f)
    process.start()%s
    process.join()
"""
FOREIGN = """
import multiprocessing as mp
if __name__ == "__main__":
    process = mp.Process(target=print)
    process.start()
    process.join()
"""
case("code", OWN % "  # DLP0407", FOREIGN, "Can't get attribute 'f'", command=("-c", "CODE"))
case("main-of-a-package", FOREIGN, FOREIGN, "Can't get attribute 'f'", command=("-m", "package"),
     files={"package/__init__.py": ("", ""), "package/__main__.py": (OWN % "  # DLP0407", FOREIGN)})
case("folder", FOREIGN, FOREIGN, "Can't get attribute 'f'", command=("folder",),
     files={"folder/__main__.py": (OWN % "  # DLP0407", FOREIGN)})
case("module-of-a-package", "", "", command=("-m", "package.mod"),
     files={"package/__init__.py": ("", ""), "package/mod.py": ("", "from . import other\n" + OWN % ""),
            "package/other.py": ("", "value = 1\n")})
case("dash-in-the-name", "", OWN % "", command=("my-prog.py",), files={"my-prog.py": ("", OWN % "")})
case("no-ending", "", OWN % "", command=("prog",), files={"prog": ("", OWN % "")})

# ---- DLP0408: MPI in every worker

case("mpi-at-import", """
import multiprocessing as mp
from mpi4py import MPI  # DLP0408
def f(): pass
if __name__ == "__main__":
    process = mp.Process(target=f)
    process.start()
""", """
import multiprocessing as mp
def f(): pass
if __name__ == "__main__":
    from mpi4py import MPI
    process = mp.Process(target=f)
    process.start()
""")

# ---- healthy programs that look like failing ones

case("freeze-support", "", """
import multiprocessing as mp
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    mp.Pool(1)
if False:
    mp.Pool(1)
def f(x): return x
def main():
    with mp.Pool(1) as pool: print(pool.map(f, [1]))
if __name__ == "__main__" and len(__file__) > 1:
    mp.freeze_support()
    main()
""")
case("threads", "", """
from multiprocessing.pool import ThreadPool
from concurrent.futures import ThreadPoolExecutor
import multiprocessing.dummy as mp
print(ThreadPool(1).map(lambda x: x, [1]))
with ThreadPoolExecutor(1) as pool: print(pool.submit(lambda: 1).result())
print(mp.Pool(1).map(lambda x: x, [1]))
""")
case("own-context", "", """
import multiprocessing as mp
context = mp.get_context("fork")
pool = context.Pool(1, initializer=lambda: None)
pool.close()
""")
