"""The Python module dlprobe on the built program.

environment: DLPROBE, and PYTHONPATH with the module
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import dlprobe

PROGRAM = os.environ["DLPROBE"]


class Session:
    """What IPython is to an extension."""

    def __init__(self):
        self.magics = {}

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function


class NotebookTest(unittest.TestCase):
    """%dlprobe, with a stand-in for IPython: it is not among what the tests install."""

    def setUp(self):
        self.shown = []
        display = types.ModuleType("IPython.display")
        display.display = lambda data, raw: self.shown.append(data)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        os.symlink(PROGRAM, os.path.join(folder, "dlprobe"))
        path = folder + os.pathsep + os.environ["PATH"]
        self.enterContext(mock.patch.dict(os.environ, PATH=path))
        self.enterContext(mock.patch.dict(sys.modules, {"IPython": types.ModuleType("IPython"),
                                                        "IPython.display": display}))
        session = Session()
        dlprobe.load_ipython_extension(session)
        self.magic = session.magics["line", "dlprobe"]
        self.addCleanup(sys.modules.pop, "dlprobe.notebook")

    def said(self, line):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.magic(line)
        return out.getvalue()

    def test_a_report_is_printed_and_its_page_shown(self):
        self.assertIn("FAIL  DLP0101 ", self.said("gate --level quick --workers 1024 --batch-size 65536"))
        page = self.shown[0]["text/html"]
        self.assertTrue(page.startswith('<iframe sandbox="allow-scripts" '), page[:99])
        self.assertTrue("&lt;h1&gt;DLP0101 " in page and "<h1>" not in page)

    def test_what_has_no_page_is_printed(self):
        self.assertIn("DLP0102", self.said("explain DLP0102"))
        self.assertIn("there is no process", self.said(f"attach {2**22 - 1}"))
        self.assertEqual(self.shown, [])


class ModuleTest(unittest.TestCase):
    def test_as_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(PROGRAM, os.path.join(folder, "dlprobe"))
            done = subprocess.run([sys.executable, "-m", "dlprobe", "--version"], capture_output=True, text=True,
                                  check=False, env={**os.environ, "PATH": folder})
            self.assertRegex(done.stdout, r"^dlprobe \d")
            done = subprocess.run([sys.executable, "-m", "dlprobe"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": "/nowhere"})
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, "^dlprobe: there is no dlprobe")

    def test_gate(self):
        report = dlprobe.gate("quick", workers=2, batch_size=4, sample_shape="3x8x8", program=PROGRAM)
        self.assertIn(report.verdict, ("pass", "warn", "fail", "incomplete"))
        self.assertEqual(report.exit_code, {"pass": 0, "warn": 0, "fail": 1, "incomplete": 3}[report.verdict])
        self.assertIn("shm.size", [check.id for check in report.checks])
        self.assertEqual(report.raw["kind"], "dlprobe.report")

    def test_a_finding_is_no_exception(self):
        report = dlprobe.gate("quick", workers=1024, batch_size=65536, program=PROGRAM)
        self.assertEqual((report.verdict, report.exit_code), ("fail", 1))
        self.assertEqual(report.find("DLP0101"), report.find("shm-too-small"))
        self.assertIn("DLP0101 shm-too-small: ", str(report))

    def test_attach(self):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            report = dlprobe.attach(child.pid, watch_for=0, program=PROGRAM)
            child.communicate(b"\n")
        self.assertEqual(report.raw["processes"][0]["pid"], child.pid)

    def test_run(self):
        done = dlprobe.run([sys.executable, "-c", "raise SystemExit(7)"], program=PROGRAM)
        self.assertEqual((done.returncode, done.report.exit_code), (7, 7))
        self.assertEqual(dlprobe.run(["/does/not/exist"], program=PROGRAM), (127, None))

    def test_a_command_is_no_text(self):
        for text in ("true", b"true", Path("true")):
            with self.assertRaisesRegex(TypeError, r"list of words.*shlex\.split\(\)"):
                dlprobe.run(text, program=PROGRAM)
        for words in (["true"], ("true",)):
            self.assertEqual(dlprobe.run(words, program=PROGRAM).returncode, 0)

    def test_what_cannot_be_done_is_an_error(self):
        with self.assertRaisesRegex(dlprobe.DlprobeError, "bogus.* is none of") as caught:
            dlprobe.gate("bogus", program=PROGRAM)
        self.assertEqual(caught.exception.exit_code, 2)
        with self.assertRaisesRegex(dlprobe.DlprobeError, "there is no process"):
            dlprobe.attach(2**22 - 1, program=PROGRAM)
        with self.assertRaises(dlprobe.ProgramNotFound):
            dlprobe.gate(program="/does/not/exist")

    def test_where_the_user_has_reports_go_does_not_matter(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "dlprobe.toml"
            for text in ('output = "o.txt"', 'format = ["markdown"]'):
                config.write_text(text + "\n", encoding="utf-8")
                report = dlprobe.gate("quick", workers=1, program=PROGRAM, arguments=["--config", str(config)])
                self.assertEqual(report.raw["kind"], "dlprobe.report")

    def test_a_program_that_says_nothing(self):
        with self.assertRaisesRegex(dlprobe.DlprobeError, "ended with 1 and without a word"):
            dlprobe.gate(program="/bin/false")

    def test_another_major_version(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "dlprobe"
            program.write_text("#!/bin/sh\necho '{\"schema_version\": \"9.0\"}' > \"${3#json=}\"\n", encoding="utf-8")
            program.chmod(0o755)
            with self.assertRaisesRegex(dlprobe.DlprobeError, "schema version 9.0"):
                dlprobe.gate(program=str(program))


if __name__ == "__main__":
    unittest.main()
