"""The wheel of `tools/package wheel`, and what `pip install ROOT` builds, each in a fresh environment and used there.

usage: wheel_test.py ROOT
pytest and IPython come from pip's index.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=3000, check=False, **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class Installed:
    """What holds of both: a venv with dlprobe in it, and nothing else on PATH, no compiler."""

    @classmethod
    def make_environment(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.bin = cls.folder / "environment" / "bin"
        must(sys.executable, "-m", "venv", cls.bin.parent)

    def must(self, program, *arguments):
        return must(self.bin / program, *arguments, cwd=self.folder, env=dict(os.environ, PATH=str(self.bin)))

    def python(self, text):
        return self.must("python", "-c", text).strip()

    def install(self, *names):
        done = run(self.bin / "pip", "install", "--quiet", *names)
        if done.returncode:
            self.skipTest(f"needs {' and '.join(names)} from pip's index: {done.stdout}")

    def test_dlprobe_is_on_path(self):
        version = self.python("import importlib.metadata as m; print(m.version('dlprobe'))")
        lines = self.must("dlprobe", "--version").splitlines()
        self.assertEqual(lines[0], f"dlprobe {version}")
        self.assertRegex(lines[1], r"\Abuilt: commit [0-9a-f]{10}")

    def test_python_runs_it_as_a_module(self):
        self.assertEqual(self.must("python", "-m", "dlprobe", "--version"), self.must("dlprobe", "--version"))

    def test_the_module_finds_that_program(self):
        self.assertEqual(self.python("import dlprobe; print(dlprobe.find_program())"), str(self.bin / "dlprobe"))
        self.assertIn(self.python("import dlprobe; print(dlprobe.gate('quick').verdict)"),
                      ("pass", "warn", "fail", "incomplete"))

    def test_pytest_fails_a_test_that_leaves_a_process_alone(self):
        self.install("pytest")
        test = self.folder / "test_leaves.py"
        test.write_text("import subprocess, sys\n"
                        "def test_waits(): subprocess.run([sys.executable, '-c', ''])\n"
                        "def test_leaves(): subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n",
                        encoding="utf-8")
        done = run(self.bin / "python", "-m", "pytest", "--dlprobe", "-q", test, cwd=self.folder)
        self.assertRegex(done.stdout, r"2 passed, 1 error")
        self.assertRegex(done.stdout, r"ERROR test_leaves.py::test_leaves")

    def test_the_notebook_shows_its_text(self):
        self.install("ipython")
        shown = self.must("ipython", "--no-banner", "--colors=NoColor", "-c",
                          "get_ipython().run_line_magic('load_ext', 'dlprobe'); "
                          "get_ipython().run_line_magic('dlprobe', 'explain DLP0301')")
        self.assertIn("fork-inherited-lock", shown)


class FromSource(Installed, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.make_environment()
        # The compiler of tools/package: under another name CMake builds all of build/wheel anew, and ccache knows none of it.
        must(cls.bin / "pip", "install", "--quiet", ROOT, env=dict(os.environ, CXX=os.environ.get("CXX", "c++")))


class WheelTest(Installed, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.make_environment()
        must(ROOT / "tools/package", "wheel", "--out", cls.folder / "made")
        cls.wheel = next(cls.folder.glob("made/*.whl"))
        must(cls.bin / "pip", "install", "--quiet", "--no-index", cls.wheel)

    def test_it_fits_every_python_and_names_its_machine(self):
        self.assertRegex(self.wheel.name, r"\Adlprobe-[\d.]+-py3-none-(manylinux|linux)[\w.]*_(x86_64|aarch64)\.whl\Z")

    def test_it_brings_its_manual_page_and_its_types(self):
        names = self.python("import importlib.metadata as m; print(*[f.name for f in m.files('dlprobe')])").split()
        self.assertLessEqual({"dlprobe.1", "py.typed", "LICENSE"}, set(names))
        self.assertNotIn("dlprobe-reference-loader", names)


if __name__ == "__main__":
    if run(sys.executable, "-c", "import ensurepip, venv").returncode:
        print("needs venv: apt-get install python3-venv")
        sys.exit(77)
    unittest.main()
