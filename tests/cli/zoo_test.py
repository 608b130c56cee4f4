"""Healthy programs that nobody here wrote, under `dlprobe run`: nothing is said of them but what they provoke on purpose, and
they end as they do without.

usage: zoo_test.py [-v] [--python PROGRAM] [CLASS ...]       environment: DLPROBE
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import DLPROBE

PYTHON = sys.argv.pop(sys.argv.index("--python") + 1) if "--python" in sys.argv else sys.executable
SYSTEM = "/usr/bin/python3"
GOOGLETEST = "/usr/src/googletest"
LIMIT_S = 3000
# CPython's own tests do that on purpose: results that cannot be pickled, tasks and objects of queues that are lost, workers that
# raise or exit; those of executors crash and kill their workers as well.
PROVOKED = {"DLP0402", "DLP0510", "DLP0514"}
OF_EXECUTORS = PROVOKED | {"DLP0503", "DLP0509"}


def imports(python, *modules):
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True, check=False).returncode == 0


class Zoo(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def run_command(self, command):
        return subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=LIMIT_S, text=True, errors="replace", check=False)

    def check(self, *command, provoked=frozenset()):
        report = Path(self.folder, "report.json")
        done = self.run_command([DLPROBE, "run", "-q", "-f", f"json={report}", "--", *command])
        if done.returncode != 0:
            alone = self.run_command(command)
            self.assertEqual(done.returncode, alone.returncode, done.stdout[-3000:])
        findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
        said = [f"{each['code']} {each['severity']}: {each['message']}" for each in findings
                if each["severity"] != "info" and each["code"] not in provoked]
        self.assertEqual(said, [])


class TestsOfCPython(Zoo):
    def check_cpython(self, name, provoked=PROVOKED):
        if not imports(PYTHON, f"test.{name}"):
            self.skipTest(f"{PYTHON} comes without test.{name}: install a Python with its tests")
        self.check(PYTHON, "-m", "test", name, provoked=provoked)

    def test_multiprocessing_fork(self):
        self.check_cpython("test_multiprocessing_fork")

    def test_multiprocessing_spawn(self):
        self.check_cpython("test_multiprocessing_spawn")

    def test_multiprocessing_forkserver(self):
        self.check_cpython("test_multiprocessing_forkserver")

    def test_concurrent_futures(self):
        self.check_cpython("test_concurrent_futures", OF_EXECUTORS)


class Tools(Zoo):
    def test_pytest_xdist(self):
        if not imports(SYSTEM, "xdist", "numpy.lib.tests"):
            self.skipTest(f"{SYSTEM} has no pytest-xdist or no tests of numpy: apt-get install python3-pytest-xdist python3-numpy")
        self.check(SYSTEM, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--pyargs", "numpy.lib.tests.test_shape_base")

    def test_joblib(self):
        if not imports(SYSTEM, "joblib.test.test_parallel", "pytest"):
            self.skipTest(f"{SYSTEM} has no joblib with its tests: apt-get install python3-joblib")
        self.check(SYSTEM, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "joblib.test.test_parallel", "-k",
                   "simple_parallel or dispatch or main_thread_renamed")

    def test_make(self):
        if not os.path.isdir(GOOGLETEST):
            self.skipTest(f"{GOOGLETEST} is not there: apt-get install libgtest-dev")
        subprocess.run(["cmake", "-S", GOOGLETEST, "-B", self.folder, "-G", "Unix Makefiles"], check=True, capture_output=True)
        self.check("make", "-j", "2")

    def test_pip_install(self):
        venv = Path(self.folder, "venv")
        self.check(PYTHON, "-m", "venv", venv)
        wheels = subprocess.run([PYTHON, "-c", "import ensurepip, os; print(os.path.dirname(ensurepip.__file__) + '/_bundled')"],
                                capture_output=True, text=True, check=True).stdout.strip()
        self.check(venv / "bin/python", "-m", "pip", "install", "--no-index", "--find-links", wheels, "--force-reinstall", "pip")


if __name__ == "__main__":
    unittest.main(argv=[argument for argument in sys.argv if argument != "--python"])
