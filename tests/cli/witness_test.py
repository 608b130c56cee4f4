"""The witness in the interpreters of a command: the program is the same with it and without, and what ended it is told."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import DLPROBE, TIMEOUT

PROGRAMS = {  # name -> text; __name__ is "__main__", __file__ ends in prog.py
    "error": "def f(): raise ValueError('x')\nf()\n",
    "error of a chain": "try:\n  {}['a']\nexcept KeyError as e:\n  raise RuntimeError('b') from e\n",
    "syntax": "def (:\n",
    "thread": "import threading\ndef f(): 1/0\nt = threading.Thread(target=f)\nt.start()\nt.join()\nraise KeyError(3)\n",
    "own excepthook": "import sys, atexit\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n"
                      "atexit.register(lambda: print('end'))\nraise ValueError\n",
    "exit as it is pickled": "import sys\nfrom concurrent.futures import ProcessPoolExecutor\n"
                             "class Result:\n  def __reduce__(self): sys.exit(1)\n"
                             "if __name__ == '__main__':\n  with ProcessPoolExecutor(1) as pool:\n"
                             "    try: pool.submit(Result).result(timeout=20)\n"
                             "    except BaseException as error: print(type(error).__name__)\n",
    "child": "import multiprocessing as mp\ndef f(): raise OSError(5, 'x', 'y')\nif __name__ == '__main__':\n"
             "  for m in ('fork', 'spawn', 'forkserver'):\n"
             "    p = mp.get_context(m).Process(target=f, name='kid'); p.start(); p.join(); print(p.exitcode, flush=True)\n",
    "no guard": "import multiprocessing as mp\nmp.set_start_method('spawn')\np = mp.Process(target=print, name='kid')\n"
                "p.start(); p.join(); print(p.exitcode)\n",
    "lambda": "import multiprocessing as mp\nif __name__ == '__main__':\n"
              "  mp.get_context('spawn').Process(target=lambda: 1).start()\n",
    "set twice": "import multiprocessing as mp\nif __name__ == '__main__':\n"
                 "  mp.set_start_method('spawn')\n  mp.set_start_method('fork')\n",
    "task": "import multiprocessing as mp\ndef f(i): return 1//(i-3)\nif __name__ == '__main__':\n"
            "  with mp.get_context('fork').Pool(1) as p: p.map(f, range(8))\n",
    "result": "import multiprocessing as mp\ndef f(i): return lambda: 1\nif __name__ == '__main__':\n"
              "  with mp.get_context('fork').Pool(1) as p: p.apply(f, [1])\n",
    "exits": "import multiprocessing as mp, os, sys\ndef f(): sys.exit(3)\ndef g(): os._exit(4)\ndef h(): sys.exit('why')\n"
             "if __name__ == '__main__':\n  for t in (f, g, h):\n"
             "    p = mp.get_context('fork').Process(target=t); p.start(); p.join(); print(p.exitcode, flush=True)\n"
             "  sys.exit('bye')\n",
    "alarms at forks": "import os, signal\nclass Late(Exception): pass\ncaught = [0]\ndef late(*_): raise Late\n"
                       "signal.signal(signal.SIGALRM, late)\nfor i in range(300):\n  try:\n"
                       "    signal.setitimer(signal.ITIMER_REAL, 1e-6)\n    pid = os.fork()\n"
                       "    if not pid: os._exit(0)\n    os.waitpid(pid, 0)\n    signal.pause()\n"
                       "  except Late: caught[0] += 1\nprint(caught)\n",
    "exits in a pickle": "import multiprocessing as mp, os, pickle, sys\n"
                         "def f(): print([pickle.loads(pickle.dumps(e)) is e for e in (os.abort, os._exit, sys.exit)], flush=True)\n"
                         "if __name__ == '__main__':\n"
                         "  p = mp.get_context('fork').Process(target=f); p.start(); p.join(); print(p.exitcode)\n",
    "traceback of an exit": "import multiprocessing as mp, sys, traceback\ndef f():\n  try: sys.exit(3)\n"
                            "  except SystemExit: traceback.print_exc()\nif __name__ == '__main__':\n"
                            "  p = mp.get_context('fork').Process(target=f); p.start(); p.join()\n",
    "import that fails": "import sys\nclass F:\n  def find_spec(self, name, path=None, target=None):\n"
                         "    if name == 'queue': raise RuntimeError('broken queue')\n"
                         "sys.meta_path.append(F()); sys.modules.pop('queue', None)\n"
                         "sys.meta_path.insert(0, sys.meta_path.pop())\nimport multiprocessing.pool\n",
    "files of code": "import sys, multiprocessing\nseen = set()\ndef trace(frame, *_): seen.add(frame.f_code.co_filename)\n"
                     "sys.settrace(trace)\nimport multiprocessing.pool\nprint([f for f in seen if 'dlprobe-' in f])\n",
    "samples": "try: import torch\nexcept ImportError: raise SystemExit('no torch')\n"
               "import gc, numpy, random, sys\nfrom torch.utils.data import DataLoader, Dataset, IterableDataset\n"
               "class Noisy(Dataset):\n"
               "  rngs = numpy.random.default_rng(0), numpy.random.RandomState(1), random.Random(2), numpy.random, random\n"
               "  file = open(sys.executable, 'rb')\n"
               "  def __len__(self): return 24\n"
               "  def __getitem__(self, i):\n"
               "    if i == 21: return self.missing\n"
               "    return [each.random() for each in self.rngs if each is not numpy.random] + [numpy.random.rand(), i]\n"
               "class Stream(IterableDataset):\n  def __iter__(self): return ({'n': torch.tensor(i), 's': str(i)} for i in range(40))\n"
               "def collate(samples):\n  if samples[0] == {'n': 36, 's': '36'}: 1 / 0\n  return samples, torch.rand(1)\n"
               "for persists in (False, True):\n  for data in (Noisy(), Stream()):\n    torch.manual_seed(0)\n"
               "    loader = DataLoader(data, 4, num_workers=2, collate_fn=collate, persistent_workers=persists)\n"
               "    for epoch in range(2):\n      try:\n        for batch in loader: print(batch)\n"
               "      except Exception as error: print(error)\n      gc.collect()\n",
    "crashes": "import ctypes, faulthandler, multiprocessing as mp, os, resource\n"
               "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\ndef f(): ctypes.string_at(16)\n"
               "def g(): faulthandler.enable(open(os.devnull, 'w')); f()\ndef h(): os.kill(os.getpid(), 6)\n"
               "if __name__ == '__main__':\n  for m in ('fork', 'spawn', 'forkserver'):\n    for t in (f, g, h):\n"
               "      p = mp.get_context(m).Process(target=t); p.start(); p.join(); print(p.exitcode, flush=True)\n",
    "results": "import concurrent.futures as cf, gc, multiprocessing as mp, multiprocessing.pool, weakref\n"
               "def f(n):\n  if n == 3: raise ValueError(n)\n  return n\nif __name__ == '__main__':\n"
               "  for make in (cf.ThreadPoolExecutor, cf.ProcessPoolExecutor):\n    with make(2) as e:\n"
               "      fs = [e.submit(f, n) for n in range(5)]; e.map(f, range(5))\n"
               "      print([repr(each.exception()) for each in fs])\n      fs[3].add_done_callback(lambda r: print(r.done()))\n"
               "      freed = weakref.ref(e.submit(f, 3))\n    gc.collect(); print(freed())\n"
               "  for make in (mp.Pool, mp.pool.ThreadPool):\n    with make(2) as p:\n"
               "      r = p.apply_async(f, (3,)); r.wait(); print(r.successful(), vars(r)['_success'])\n"
               "      try: r.get()\n      except ValueError as error: print(repr(error))\n"
               "      print(p.map_async(f, range(3)).get(), p.map_async(f, range(5)).ready())\n      p.close(); p.join()\n",
    "tensors": "try: import torch.multiprocessing as mp\nexcept ImportError: raise SystemExit('no torch')\n"
               "import torch\ndef f(q, e):\n  b = torch.zeros(9)\n  for n in range(5): q.put({'n': b.fill_(n)})\n"
               "  q.put(torch.nn.Parameter(b)); e.wait()\nif __name__ == '__main__':\n"
               "  for m in ('fork', 'spawn'):\n    c = mp.get_context(m); q = c.Queue(); e = c.Event()\n"
               "    p = c.Process(target=f, args=(q, e)); p.start(); got = [q.get() for _ in range(6)]; e.set(); p.join()\n"
               "    print(len(got), type(got[5]), got[5].requires_grad, p.exitcode)\n",
    "exit of a rank": "try: import torch.distributed\nexcept ImportError: raise SystemExit('no torch')\nimport sys\n"
                      "try: sys.exit(4)\nexcept SystemExit as left: print(left)\nsys.exit(5)\n",
    "pool of a manager": "import multiprocessing\nif __name__ == '__main__':\n"
                         "    with multiprocessing.Manager() as manager, manager.Pool(1) as pool:\n"
                         "        print(pool.apply_async(abs, (-3,)).get())\n",
    "names": "import logging, multiprocessing, sys, threading, warnings\n"
             "print('sitecustomize' in sys.modules, sys.path, sys.excepthook is sys.__excepthook__,\n"
             "      threading.excepthook is threading.__excepthook__)\n"
             "logging.basicConfig(format='%(pathname)s %(lineno)d %(funcName)s %(message)s')\nlogging.error('x')\n"
             "warnings.warn('hm')\n",
}


def without_what_differs(text):
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return re.sub(r"((Fork|Spawn|ForkServer|ForkPool|)(Process|PoolWorker|Thread)-)[0-9:-]+", r"\1", text)


def without_report(text):
    lines = []
    for line in text.splitlines():
        if re.match(r"(FAIL|WARN|INCOMPLETE)  ", line):
            break
        if not line.startswith("dlprobe: "):
            lines.append(line)
    return lines


class Witness(unittest.TestCase):
    maxDiff = None

    def outcome(self, *command):
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False, text=True)
        return done.returncode, without_what_differs(done.stdout), without_report(without_what_differs(done.stderr))

    def test_a_program_is_the_same_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "prog.py")
            for name, text in PROGRAMS.items():
                with open(script, "w", encoding="utf-8") as file:
                    file.write(text)
                alone = self.outcome(sys.executable, script)
                with self.subTest(program=name):
                    self.assertEqual(self.outcome(DLPROBE, "run", "--", sys.executable, script), alone)

    def said_by_modules(self, program, *before, python=sys.executable):
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "lib", "subject", "python_shim")
        with tempfile.TemporaryDirectory() as copies:
            os.chmod(copies, 0o755)
            for name in ("dlprobe_start.py", "dlprobe_hooks.py", "dlprobe_limits.py", "dlprobe_ends.py", "dlprobe_pickle.py",
                         "dlprobe_signals.py", "dlprobe_trace.py"):
                shutil.copy(os.path.join(folder, name), copies)
            with open(os.path.join(copies, "options"), "w", encoding="utf-8"):
                pass
            done = subprocess.run([*before, python, "-c", program], capture_output=True, timeout=TIMEOUT, text=True,
                                  check=False, env=dict(os.environ, PYTHONPATH=copies))
        self.assertEqual(done.stderr, "")
        return done.stdout

    def known_of(self, text, *before, **changes):
        """What the witness knows of the OSError that a function of `text`, f, raises; `before`: the command that starts it."""
        program = f"""
import dlprobe_hooks as h, io, json, os, sys, tempfile
{text}
try:
    f()
except OSError as error:
    print(json.dumps(h._refused_resource(error, error)))
"""
        return json.loads(self.said_by_modules(program, *before, **changes))

    def test_descriptors_are_counted(self):
        text = "kept = []\ndef f():\n  while True: kept.append(open(os.devnull))\n"
        self.assertEqual(self.known_of(text, "prlimit", "--nofile=70"), {"limit": 70, "count": 70})
        closes = text + "g = f\ndef f():\n  try: g()\n  finally: del kept[20:]\n"
        known = self.known_of(closes, "prlimit", "--nofile=70")
        self.assertIn(known.pop("count"), range(20, 40))
        self.assertEqual(known, {"limit": 70, "wanted": None})
        other = self.known_of("def f(): raise OSError(24, 'no more of something else')", "prlimit", "--nofile=4000")
        self.assertLess(other["count"], 20)
        self.assertIn("another resource", other["wanted"])

    def test_a_limit_of_the_size_of_files_is_known(self):
        text = ("class A: file = tempfile.TemporaryFile(buffering=0)\ndef f(): A.file.write(bytes(9000)) and A.file.write(b'x')\n"
                "__import__('signal').signal(25, 1)")
        known = self.known_of(text, "prlimit", "--fsize=9000")
        self.assertEqual((known["limit"], known["wanted"]), (9000, "file size"))
        self.assertTrue(known["path"].startswith(tempfile.gettempdir()), known)

    @unittest.skipUnless(os.geteuid() == 0, "needs a file system of its own: run as root")
    def test_a_full_file_system_is_known(self):
        mount = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt && exec \"$@\"", "sh"]
        fills = "for n in range(99): os.write(kept.fileno(), bytes(1 << 16))"
        for text in (f"kept = open('/mnt/a', 'wb')\ndef f():\n  {fills}", "def f():\n  g = open('/mnt/a', 'wb', 0)\n"
                     "  while g.write(bytes(40000)) == 40000: pass\n  raise OSError('40000 requested and less written')"):
            known = self.known_of(text, *mount)
            self.assertEqual([known[key] for key in ("path", "free_bytes", "bytes")], ["/mnt/a", 0, 1 << 20])
        known = self.known_of(f"kept = open('/mnt/a', 'wb')\ndef f():\n  {fills}", *mount, "env", "TMPDIR=/mnt")
        self.assertEqual([known[key] for key in ("temporary", "count", "made_bytes")], [True, 1, 1 << 20])
        healthy = "def f():\n  g = open('/mnt/a', 'wb', 0)\n  raise OSError('broken')"
        self.assertEqual(self.known_of(healthy, *mount), {})
        reads = ("g = open('/mnt/a', 'wb', 0)\ntry:\n  while True: g.write(bytes(40000))\nexcept OSError: pass\n"
                 "def f():\n  h = open('/mnt/a', 'rb')\n  raise OSError('image file is truncated')")
        self.assertEqual(self.known_of(reads, *mount), {})

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/usr/bin/python3"), "needs another user: run as root")
    def test_a_folder_for_temporary_files_that_may_not_be_written_to_is_known(self):
        text = "def f(): open(os.environ['TMPDIR'] + '/x', 'w')"
        for mode, known in ((0o755, {"path": "/mnt/x", "temporary": True}), (0o777, {})):
            mount = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o mode={mode:o} tmpfs /mnt; touch /mnt/x; exec \"$@\"", "sh"]
            user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "TMPDIR=/mnt"]
            self.assertEqual(self.known_of(text, *mount, *user, python="/usr/bin/python3"), known)

    def test_who_has_a_file_locked_is_known(self):
        with tempfile.NamedTemporaryFile() as file:
            text = f"""
import fcntl, time
name = {file.name!r}
child = os.fork()
if not child:
    held = open(name, 'w')
    fcntl.flock(held, fcntl.LOCK_EX)
    time.sleep(60)
def f():
    file = open(name)
    while True:  # until the child has it
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
known = h._refused_resource
def expect(*errors):
    said = known(*errors)
    os.kill(child, 9)
    return dict(said, child=said.get('child') == child)
h._refused_resource = expect
"""
            self.assertEqual(self.known_of(text), {"wanted": "locked", "child": True, "path": file.name})
        other = "import socket\nopen_file = open('/dev/null')\ndef f():\n  s, _ = socket.socketpair()\n  s.setblocking(False)\n  s.recv(1)"
        self.assertEqual(self.known_of(other), {})

    def test_who_has_a_database_locked_is_known(self):
        with tempfile.TemporaryDirectory() as folder:
            program = f"""
import dlprobe_limits, dlprobe_trace, os, signal, sqlite3
name = {folder!r} + "/x.db"
sqlite3.connect(name).execute("CREATE TABLE t (i)")
reads, writes = os.pipe()
child = os.fork()
if not child:
    held = sqlite3.connect(name)
    held.execute("INSERT INTO t VALUES (1)")
    os.write(writes, b"1")
    signal.pause()
os.read(reads, 1)
def known(statement):
    try:
        sqlite3.connect(name, timeout=0).execute(statement)
    except sqlite3.OperationalError as error:
        return dlprobe_limits.locked_file(dlprobe_trace.Trace(error))
said = known("BEGIN IMMEDIATE"), known("SELECT * FROM nothing")
os.kill(child, 9)
print(said[0].pop("child", child) == child, *said)
"""
            locked = {"wanted": "locked", "path": folder + "/x.db"} if sys.version_info >= (3, 11) else {}
            self.assertEqual(self.said_by_modules(program).strip(), f"True {locked} {{}}")

    def test_what_is_not_in_its_place_is_known(self):
        program = """
import dlprobe_ends, dlprobe_trace, os, sys, types
def known():
    try: f()
    except Exception as error: print(dlprobe_ends.misplaced(dlprobe_trace.Trace(error)))
signal = types.ModuleType("signal")
signal.__file__ = "/job/signal.py"
def f(): signal.Signals
known()
def f(): signal.of_nobody
known()
class Client: pass
client = Client()
client._pid = os.getppid()
code = compile("import os\\ndef f(self):\\n  if self._pid != os.getpid(): raise RuntimeError", "/v/site-packages/c.py", "exec")
names = {}
exec(code, names)
f = lambda: names["f"](client)
known()
client._pid = 0
known()
"""
        module = "{'wanted': 'module', 'path': '/job/signal.py'}" if sys.version_info >= (3, 10) else "{}"
        creator = "{'wanted': 'creator', 'child': %d}" % os.getpid()
        self.assertEqual(self.said_by_modules(program).splitlines(), [module, "{}", creator, "{}"])

    def test_the_ways_of_the_witness_and_of_multiprocessing_are_not_the_users(self):
        program = """
import dlprobe_trace as t, sys
def run(text, file, **names):
    exec(compile(text, file, "exec"), names)
    return names
own = run("def wrapper(*a): sys.exit(*a)", "<dlprobe_hooks>", sys=sys)["wrapper"]
hands_on = run("def _wrap():\\n  exit(1)", "/v/torch/multiprocessing/spawn.py", exit=own)["_wrap"]
try: hands_on()
except SystemExit as left: print(t.Trace(left).is_raised_in("torch/multiprocessing/spawn.py", "_wrap"))
def place(): print(t.users_place([(sys._getframe(1), 1)]).get("file"))
run("place()", "<string>", place=place, __name__="__main__")
run("from multiprocessing.spawn import spawn_main; place()", "<string>", place=place, __name__="__main__")
"""
        self.assertEqual(self.said_by_modules(program).split(), ["True", "<string>", "None"])

    def test_signals_that_are_sent_and_timers_that_are_set_are_told_with_their_lines(self):
        program = """
import dlprobe_start as s, json, os, signal
s._send = lambda line: print(*(json.loads(line).get(key) for key in ("count", "child", "seconds", "line")))
import dlprobe_signals
child = os.fork() or signal.pause()
os.kill(child, 0)
for _ in range(2): signal.setitimer(signal.ITIMER_REAL, 60)
signal.alarm(0)
os.kill(child, signal.SIGKILL)
try: os.kill(child, "x")
except TypeError: print(os.kill is __import__("pickle").loads(__import__("pickle").dumps(os.kill)))
"""
        told = self.said_by_modules(program).splitlines()
        self.assertEqual(told[0], "14 None 60.0 7")
        self.assertRegex(told[1], r"9 \d+ None 9")
        self.assertEqual(told[2:], ["True"])

    def test_the_threads_of_the_user_are_counted(self):
        program = """
import dlprobe_limits, threading, time
for _ in range(5): threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
print(dlprobe_limits.tasks_of_user() >= 6)
"""
        self.assertEqual(self.said_by_modules(program), "True\n")

    def test_what_lacks_a_descriptor_is_not_called_unpicklable(self):
        program = """
import dlprobe_hooks as h, dlprobe_trace, errno, multiprocessing.reduction as r
class Thing:
    def __reduce__(self): raise OSError(number, "refused")
for number in (errno.EMFILE, errno.ENOENT):
    try: r.ForkingPickler.dumps(Thing())
    except OSError as error: print((h._refusal_of(dlprobe_trace.Trace(error)) or {}).get("cause"))
"""
        self.assertEqual(self.said_by_modules(program).split(), ["None", "unpicklable"])

    def test_each_module_that_has_a_hook_is_waited_for(self):
        ask = "import dlprobe_start as s, dlprobe_hooks as h; print({*h.BEFORE, *h.AFTER}.difference(s._HOOKED) or 'none')"
        self.assertEqual(self.said_by_modules(ask), "none\n")

    def test_of_an_event_that_is_too_long_nothing_is_made_up(self):
        tell = "import dlprobe_start as s; s._send = print; s.tell('failed', message=chr(0x1F600) * 600, path=None)"
        told = json.loads(self.said_by_modules(tell))
        self.assertEqual(told.pop("message"), chr(0x1F600) * 100)
        self.assertEqual(sorted(told), ["at", "kind", "pid", "start_ticks"])

    def gaps_of(self, *command, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            done = subprocess.run([DLPROBE, "run", "-f", f"json={path}", "--", *command], capture_output=True, timeout=TIMEOUT,
                                  stdin=subprocess.DEVNULL, check=False, **options)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        return done, [limit for limit in report["limitations"] if "interpreters" in limit["what"]]

    def headline_of(self, program):
        with tempfile.TemporaryDirectory() as folder:
            script, path = os.path.join(folder, "prog.py"), os.path.join(folder, "report.json")
            with open(script, "w", encoding="utf-8") as file:
                file.write(program)
            subprocess.run([DLPROBE, "run", "-f", f"json={path}", "--", sys.executable, script], capture_output=True,
                           timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False)
            if not os.path.exists(path):
                return ""
            with open(path, encoding="utf-8") as file:
                return "".join(finding["message"] for finding in json.load(file)["findings"])

    def test_what_an_exception_was_raised_from_is_told(self):
        kept = "import json, threading\ndef f(x):\n  try: return json.loads(x)\n  except ValueError as e:\n    {}\nf('{{')\n"
        told = self.headline_of(kept.format("raise KeyError('no item') from e"))
        self.assertRegex(told, r"KeyError: 'no item' at prog.py:5 in f, caused by json\S*JSONDecodeError: .* at prog.py:3 in f$")
        for way in ("raise KeyError('no item') from None", "raise KeyError('no item')"):
            self.assertRegex(self.headline_of(kept.format(way)), r"KeyError: 'no item' at prog.py:5 in f$")
        ends = "import threading\ndef f():\n  yield next(iter([]))\nlist(f())\n"
        self.assertRegex(self.headline_of(ends), r"raised StopIteration at prog.py:4, caused by StopIteration at prog.py:3 in f$")

    def test_a_thread_that_ends_the_program_is_told(self):
        ends = "import os, threading, time\nthreading.Thread(target=lambda: os._exit({})).start()\ntime.sleep(60)\n"
        self.assertRegex(self.headline_of(ends.format(7)), r"code 7: it called os._exit at prog.py:2")
        self.assertEqual(self.headline_of(ends.format(0)), "")

    def test_a_handle_that_a_failing_child_shares_is_told(self):
        fails = ("import multiprocessing as mp, os, socket, sys, time\nclass Records:\n"
                 "  def __init__(self): self.f = open(__file__, 'rb', buffering=0)\n"
                 "  def read(self):\n    {}\n    raise KeyError('x')\n"
                 "if __name__ == '__main__':\n  records, context = Records(), mp.get_context('fork')\n"
                 "  server = socket.create_server(('127.0.0.1', 0))\n  {}\n"
                 "  context.Process(target=time.sleep, args=(60,), daemon=True).start()\n"
                 "  child = context.Process(target=records.read); child.start(); child.join(); sys.exit(child.exitcode)\n")
        connects = "records.s = socket.create_connection(server.getsockname()[:2])"
        for reads, before, shared in (("self.f.read(9)", "", "the file position of prog.py"),
                                      ("self.f = open(__file__, 'rb', buffering=0); self.f.read(9)", "", None),
                                      ("os.pread(self.f.fileno(), 9, 9)", "", None),
                                      ("self.own = open(__file__, 'rb'); self.own.read()", "self = records; self.f.read(9)", None),
                                      ("self.s.send(b'x')", connects, r"its connection to 127.0.0.1:\d+")):
            ending = f"; maybe because it shares {shared} with other .* since fork \\(DLP0205\\)" if shared else ""
            with self.subTest(reads=reads):
                self.assertRegex(self.headline_of(fails.format(reads, before or "pass")),
                                 "KeyError: 'x' at prog.py:6 in (Records.)?read" + ending + "$")

    def test_an_interpreter_that_would_not_load_it_is_told(self):
        done, gaps = self.gaps_of(sys.executable, "-I", "-c", "import sys; sys.exit(3)")
        self.assertEqual(done.returncode, 3)
        self.assertEqual([gap["why"] for gap in gaps], ["the interpreter is started with -I, which ignores PYTHONPATH"])

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/usr/bin/python3"), "needs two users: run as root")
    def test_a_program_of_higher_rights_does_not_have_it(self):
        tell = "import os, sys; print('dlprobe_start' in sys.modules, os.geteuid())"
        with tempfile.TemporaryDirectory() as folder:
            if os.statvfs(folder).f_flag & os.ST_NOSUID:
                self.skipTest(f"needs a folder for setuid programs: {folder} is mounted nosuid; set TMPDIR")
            os.chmod(folder, 0o777)
            raised = shutil.copy(os.path.realpath("/usr/bin/python3"), folder)
            for mode, outcome in ((0o755, "True 65534\n"), (0o4755, "False 0\n")):
                os.chmod(raised, mode)
                done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", DLPROBE, "run", "--",
                                       raised, "-c", tell], capture_output=True, timeout=TIMEOUT, text=True,
                                      env=dict(os.environ, TMPDIR=folder), stdin=subprocess.DEVNULL, check=False)
                self.assertEqual((done.returncode, done.stdout), (0, outcome), done.stderr)

    def test_a_folder_for_temporary_files_that_cannot_be_used_is_told_from_another_one(self):
        program = "import tempfile\ntempfile.mkstemp(dir='/nonexistent')"
        done, gaps = self.gaps_of(sys.executable, "-c", program, env=dict(os.environ, TMPDIR="/nonexistent"))
        self.assertEqual((done.returncode, gaps), (1, []))
        self.assertIn(b"DLP0608", done.stderr)


if __name__ == "__main__":
    unittest.main()
