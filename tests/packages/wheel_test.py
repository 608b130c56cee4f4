"""The wheel of `tools/package wheel`, installed in a fresh environment and used there.

usage: wheel_test.py ROOT
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path()


def run(*command):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=3000, check=False)


def must(*command):
    done = run(*command)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        must(ROOT / "tools/package", "wheel", "--out", Path(folder.name) / "made")
        cls.wheel = next(Path(folder.name).glob("made/*.whl"))
        cls.bin = Path(folder.name) / "environment" / "bin"
        must(sys.executable, "-m", "venv", cls.bin.parent)
        must(cls.bin / "pip", "install", "--quiet", "--no-index", cls.wheel)

    def python(self, text):
        return must(self.bin / "python", "-c", text).strip()

    def test_it_fits_every_python_and_names_its_machine(self):
        self.assertRegex(self.wheel.name, r"\Adlprobe-[\d.]+-py3-none-(manylinux|linux)[\w.]*_(x86_64|aarch64)\.whl\Z")

    def test_dlprobe_is_on_path(self):
        version = self.python("import importlib.metadata as m; print(m.version('dlprobe'))")
        self.assertEqual(must(self.bin / "dlprobe", "--version").splitlines()[0], f"dlprobe {version}")

    def test_the_module_finds_that_program(self):
        self.assertEqual(self.python("import dlprobe; print(dlprobe.find_program())"), str(self.bin / "dlprobe"))
        self.assertIn(self.python("import dlprobe; print(dlprobe.gate('quick').verdict)"),
                      ("pass", "warn", "fail", "incomplete"))

    def test_pytest_will_find_the_plugin(self):
        lines = must(self.bin / "python", "-c", "import importlib.metadata as m\n"
                     "print([f.read_text() for f in m.files('dlprobe') if f.name == 'entry_points.txt'])")
        self.assertIn("[pytest11]", lines)
        self.assertIn("dlprobe = dlprobe.pytest_plugin", lines)

    def test_it_brings_its_manual_page_and_its_types(self):
        names = self.python("import importlib.metadata as m; print(*[f.name for f in m.files('dlprobe')])").split()
        self.assertLessEqual({"dlprobe.1", "py.typed", "LICENSE"}, set(names))
        self.assertNotIn("dlprobe-reference-loader", names)


if __name__ == "__main__":
    if run(sys.executable, "-c", "import ensurepip, venv").returncode:
        print("needs venv: apt-get install python3-venv")
        sys.exit(77)
    unittest.main()
