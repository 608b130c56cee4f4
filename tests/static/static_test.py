"""The static pass over small programs that fail under spawn and their healthy twins: the right codes at the right
lines, of possible confidence, and silence.

usage: static_test.py [unittest options]

DLPROBE is the program, DLPROBE_PYTHONS the interpreters, separated by ":". A program's text has "# CODE" at the end of
each line that a finding must name; a twin has none.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DLPROBE = os.environ["DLPROBE"]
PYTHONS = [path for path in os.environ.get("DLPROBE_PYTHONS", "").split(":") if path] or [sys.executable]
TIMEOUT = 60
LOADER = "from torch.utils.data import DataLoader, Dataset\nimport functools, multiprocessing as mp, sys\n"
GUARD = "if __name__ == '__main__':\n    "
CASES = {
    # DLP0401: what starts processes is not under a main guard.
    "pool": ("mp.Pool(2)  # DLP0401\n", GUARD + "mp.Pool(2)\n"),
    "process": ("process = mp.Process(target=print)\nprocess.start()  # DLP0401\n",
                "process = mp.Process(target=print)\n" + GUARD + "process.start()\n"),
    "processes": ("all = [mp.Process(target=print) for i in range(2)]\nfor one in all:\n    one.start()  # DLP0401\n",
                  "import threading\nall = [threading.Thread() for i in range(2)]\nfor one in all:\n    one.start()\n"),
    "executor": ("from concurrent.futures import ProcessPoolExecutor as E\nwith E(2) as pool:\n    pool.submit(print)  # DLP0401\n",
                 "from concurrent.futures import ProcessPoolExecutor as E\npool = E(2)\n"),
    "subclass": ("class Work(mp.Process): pass\nWork().start()  # DLP0401\n",
                 "class Work: pass\nWork().start()\n"),
    "iterated": ("for i, b in enumerate(DataLoader([1], num_workers=2)): pass  # DLP0401\n",
                 "for i, b in enumerate(DataLoader([1], num_workers=0)): pass\n"),
    "loader": ("loader = DataLoader([1], num_workers=2)\nnext(iter(loader))  # DLP0401\n",
               "loader = DataLoader([1], num_workers=2)\nfor i in range(len(loader)): pass\n" + GUARD + "next(iter(loader))\n"),
    "workers": ("N = 2\nfor b in DataLoader([1], 8, num_workers=N): pass  # DLP0401\n",
                "N = 0\nfor b in DataLoader([1], 8, num_workers=N): pass\n"),
    "handed": ("def train(batches):\n    for batch in batches: pass\ntrain(DataLoader([1], num_workers=2))  # DLP0401\n",
               "def train(batches):\n    for batch in batches: pass\ntrain(DataLoader([1]))\n"),
    "function": ("def run(): mp.Pool(2)\ndef main(): run()\nmain()  # DLP0401\n",
                 "def run(): mp.Pool(2)\ndef main(): run()\n" + GUARD + "main()\n"),
    "recursive": ("def main(n):\n    main(n - 1)\n    mp.Pool(2)\nmain(3)  # DLP0401\n",
                  "def main(n):\n    main(n - 1)\nmain(3)\n"),
    "guard-reversed": ("if '__main__' != __file__: mp.Pool(2)  # DLP0401\n", "if '__main__' == __name__: mp.Pool(2)\n"),
    "guard-exit": ("if __name__ != '__main__': print('x')\nmp.Pool(2)  # DLP0401\n",
                   "if __name__ != '__main__': sys.exit()\nmp.Pool(2)\n"),
    "guard-variable": ("is_main = len(sys.argv) > 1\nif is_main: mp.Pool(2)  # DLP0401\n",
                       "is_main = __name__ == '__main__'\nis_main and mp.Pool(2)\n"),
    "fork": ("mp.get_context('spawn').Pool(2)  # DLP0401\n", "mp.get_context('fork').Pool(2)\n"),
    "default": ("mp.set_start_method('spawn', force=True)\nmp.Pool(2)  # DLP0401\n",
                "mp.set_start_method('fork')\nmp.Pool(2)\n"),
    # DLP0402: a lambda, a local function or a local class is handed over.
    "lambda": ("DataLoader([1], num_workers=2, collate_fn=lambda x: x)  # DLP0402\n",
               "DataLoader([1], num_workers=0, collate_fn=lambda x: x)\n"),
    "sampler": ("f = lambda i: i\nDataLoader([1], num_workers=2, worker_init_fn=f)  # DLP0402\n",
                "def f(i): pass\nDataLoader([1], num_workers=2, worker_init_fn=f, sampler=iter(lambda: 1, 2))\n"),
    "in-a-dataset": ("class D:\n    def __init__(self, f): self.f = f\ndata = D(f=[lambda x: x])\n"
                     "DataLoader(data, num_workers=2)  # DLP0402\n",
                     "DataLoader(sorted([1], key=lambda x: x), num_workers=2)\n"),
    "local-function": ("def main():\n    def work(): pass\n    mp.Process(target=work)  # DLP0402\n",
                       "def work(): pass\ndef main():\n    mp.Process(target=work)\n"),
    "local-class": ("def main():\n    class D(Dataset): pass\n    DataLoader(D(), num_workers=2)  # DLP0402\n",
                    "class D(Dataset): pass\ndef main():\n    DataLoader(D(), num_workers=2)\n"),
    "own-pickling": ("def main():\n    class D:\n        pass\n    mp.Process(args=(1, D()))  # DLP0402\n",
                     "def main():\n    class D:\n        def __reduce__(self): return int, ()\n    mp.Process(args=(1, D()))\n"),
    "partial": ("mp.Process(None, functools.partial(lambda x: x, 1))  # DLP0402\n",
                "mp.Process(None, functools.partial(print, 1))\n"),
    "task": (GUARD + "with mp.get_context('fork').Pool(2) as pool: pool.map(lambda x: x, [1])  # DLP0402\n",
             "class Frame: pass\nframe = Frame()\nframe.map(lambda x: x, [1])\n"),
    "initializer": ("def main(): mp.Pool(2, initializer=lambda: 1)  # DLP0402\n",
                    "def main(): mp.get_context('fork').Pool(2, initializer=lambda: 1)\n"),
    # DLP0403: a dataset that is read in workers starts processes.
    "dataset": ("class D(Dataset):\n    def __getitem__(self, i): return mp.Pool(2)  # DLP0403\n"
                "DataLoader(D(), num_workers=2)\n",
                "class D(Dataset):\n    def __getitem__(self, i): return mp.Pool(2)\nDataLoader(D())\n"),
    # DLP0404: the start method is set while the module is imported.
    "set": ("mp.set_start_method('spawn')  # DLP0404\n" + GUARD + "mp.Pool(2)\n",
            "try:\n    mp.set_start_method('spawn')\nexcept RuntimeError: pass\n" + GUARD + "mp.Pool(2)\n"),
    "set-by-force": ("import torch.multiprocessing as tmp\ntmp.set_start_method('spawn')  # DLP0404\n" + GUARD + "tmp.spawn(print)\n",
                     "mp.set_start_method('spawn', force=True)\n" + GUARD + "mp.Pool(2)\n"),
}


def wanted(text):
    """{(code, line)} that the comments of a program ask for."""
    return {(match.group(1), number) for number, line in enumerate(text.splitlines(), 1)
            for match in [re.search(r"# (DLP\d{4})$", line)] if match}


def report_of(python, words, folder):
    done = subprocess.run([DLPROBE, "spawn-recursion", "--static", "--json", "--", python, *words], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"no report, exit {done.returncode}: {done.stderr.decode()}") from None


def places_of(report):
    """{(code, line)} of the statements that the findings name."""
    return {(finding["code"], int(fact["value"].rpartition(":")[2])) for finding in report["findings"]
            for fact in finding["evidence"] if fact["name"] == "statement"}


class StaticPass(unittest.TestCase):
    maxDiff = None

    def check(self, text):
        for python in PYTHONS:
            with self.subTest(python=python), tempfile.TemporaryDirectory() as folder:
                Path(folder, "prog.py").write_text(LOADER + text, encoding="utf-8")
                report = report_of(python, ["prog.py"], folder)
                self.assertEqual(places_of(report), wanted(LOADER + text))
                for finding in report["findings"]:
                    self.assertEqual((finding["severity"], finding["confidence"]), ("warning", "possible"))
                    self.assertTrue(finding["remediation"])
                self.assertEqual(report["summary"]["verdict"], "warn" if wanted(text) else "pass")


def add_tests():
    for name, (failing, healthy) in CASES.items():
        setattr(StaticPass, "test_" + name.replace("-", "_"), lambda self, text=failing: self.check(text))
        setattr(StaticPass, f"test_{name.replace('-', '_')}_healthy", lambda self, text=healthy: self.check(text))


class Programs(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([DLPROBE, "spawn-recursion", "--static", *words], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIMEOUT, check=False)
        return done.returncode, done.stderr.decode()

    def test_what_cannot_be_read_is_said(self):
        for words, code, text in [
                (["--", "true"], 2, "true is not a Python interpreter"),
                (["--", "torchrun", "x.py"], 2, "starts the interpreters itself"),
                ([], 2, "give the command after --"),
                (["--", PYTHONS[0], "no-such-file.py"], 2, "no-such-file.py: No such file or directory"),
                (["--", PYTHONS[0], os.path.dirname(__file__)], 2, "Is a directory"),
                (["--", PYTHONS[0], "-m", "no.such.module"], 2, "no/such/module.py: No such file"),
                (["--", PYTHONS[0], "-c", "import os\ndef f(:"], 2, "<string>:2: syntax error"),
                (["--", PYTHONS[0]], 2, "names no program"), (["--", PYTHONS[0], "-"], 2, "names no program"),
                (["--", "python3.99", "x.py"], 127, "python3.99"),
                (["--", PYTHONS[0], "--version"], 2, "names no program")]:
            with self.subTest(words=words):
                status, said = self.refused(*words)
                self.assertEqual(status, code)
                self.assertIn(text, said)

    def test_workers_do_not_import_what_stands_on_the_command_line(self):
        text = "import multiprocessing as mp\nmp.Pool(2, lambda: 1)\n"
        self.assertEqual(places_of(report_of(PYTHONS[0], ["-c", text], None)), {("DLP0402", 2)})

    def test_a_module_is_found_in_the_working_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "job").mkdir()
            Path(folder, "job", "train.py").write_text("import multiprocessing as mp\nmp.Pool(2)\n", encoding="utf-8")
            self.assertEqual(places_of(report_of(PYTHONS[0], ["-m", "job.train"], folder)), {("DLP0401", 2)})

    def test_nothing_of_the_program_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            text = "# coding: latin-1\n# \xe9\nopen('ran', 'w')\nimport helper\n"
            Path(folder, "prog.py").write_bytes(text.encode("latin-1"))
            Path(folder, "helper.py").write_text("open('ran', 'w')\n", encoding="utf-8")
            # Beside the program: what an interpreter would import for the reader.
            for name in ("ast", "os", "sitecustomize", "json"):
                Path(folder, name + ".py").write_text("open('ran', 'w')\n", encoding="utf-8")
            for python in PYTHONS:
                self.assertEqual(report_of(python, ["prog.py"], folder)["summary"]["verdict"], "pass")
                self.assertEqual(sorted(os.listdir(folder)),
                                 ["ast.py", "helper.py", "json.py", "os.py", "prog.py", "sitecustomize.py"])


add_tests()
if __name__ == "__main__":
    unittest.main()
