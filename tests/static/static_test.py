"""The static pass over small programs that fail under spawn and their healthy twins: the right codes at the right
lines, of possible confidence, and silence.

usage: static_test.py [unittest options]

DLPROBE is the program, DLPROBE_PYTHONS the interpreters, separated by ":". With DLPROBE_REALLY=1 each program is run
under spawn instead, and must fail with the words that its case says, and each twin must not.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cases import CASES
import script_cases  # noqa: F401 (its programs are added to the cases)

DLPROBE = os.environ["DLPROBE"]
PYTHONS = [path for path in os.environ.get("DLPROBE_PYTHONS", "").split(":") if path] or [sys.executable]
REALLY = os.environ.get("DLPROBE_REALLY") == "1"
TIMEOUT = 60
# The default start method of whoever loads it is spawn, as if the platform had it so.
SPAWNS = "import multiprocessing.context as c; c._default_context._default_context = c._concrete_contexts['spawn']\n"


def version_of(python):
    done = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], stdout=subprocess.PIPE, check=True)
    return tuple(int(part) for part in done.stdout.split())


VERSIONS = {python: version_of(python) for python in PYTHONS}


def wanted(text):
    """{(code, line)} that the comments of a program ask for."""
    return {(match.group(1), number) for number, line in enumerate(text.splitlines(), 1)
            for match in [re.search(r"# (DLP\d{4})$", line)] if match}


def written(folder, each, which):
    """Writes a case's files; returns the command's words and what is wanted of the files: {(file, code, line)}."""
    texts = {name: pair[which] for name, pair in each["files"].items()}
    texts.setdefault("prog.py", each["healthy" if which else "failing"])
    for name, text in texts.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    program = texts["prog.py"]
    found = {(name, code, line) for name, text in texts.items() if name.endswith(".py") for code, line in wanted(text)}
    if "CODE" in each["command"]:
        found = {("<string>", code, line) for _, code, line in found}
    return [program if word == "CODE" else word for word in each["command"]], found


def report_of(python, words, folder):
    done = subprocess.run([DLPROBE, "spawn-recursion", "--static", "--json", "--", python, *words], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"no report, exit {done.returncode}: {done.stderr.decode()}") from None


def places_of(report):
    """{(file, code, line)} of the statements that the findings name."""
    return {(os.path.basename(place[0]) if place[0].endswith(".py") else place[0], finding["code"], int(place[2]))
            for finding in report["findings"] for fact in finding["evidence"]
            if fact["name"] in ("statement", "sent_at") for place in [fact["value"].rpartition(":")]}


class StaticPass(unittest.TestCase):
    maxDiff = None

    def check(self, each, which):
        for python in [one for one in PYTHONS if VERSIONS[one] >= each["since"]]:
            with self.subTest(python=python), tempfile.TemporaryDirectory() as folder:
                words, expected = written(folder, each, which)
                report = report_of(python, words, folder)
                found = {(os.path.basename(file), code, line) for file, code, line in expected}
                self.assertEqual(places_of(report), found)
                for finding in report["findings"]:
                    self.assertEqual((finding["severity"], finding["confidence"]), ("warning", "possible"))
                    self.assertTrue(finding["remediation"])
                self.assertEqual(report["summary"]["verdict"], "warn" if expected else "pass")


class Really(unittest.TestCase):
    """The claims of the cases themselves, by the interpreters."""

    def run_under_spawn(self, python, words, folder):
        Path(folder, "site", "sitecustomize.py").parent.mkdir()
        Path(folder, "site", "sitecustomize.py").write_text(SPAWNS, encoding="utf-8")
        environment = dict(os.environ, PYTHONPATH=os.path.join(folder, "site"))
        with subprocess.Popen([python, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                return process.communicate(timeout=8)[0].decode()
            except subprocess.TimeoutExpired:
                # A pool whose workers die starts others for ever.
                os.killpg(process.pid, 9)
                return process.communicate()[0].decode()

    def check(self, each, which):
        for python in [one for one in PYTHONS if VERSIONS[one] >= each["since"]]:
            with self.subTest(python=python), tempfile.TemporaryDirectory() as folder:
                words, _ = written(folder, each, which)
                said = self.run_under_spawn(python, words, folder)
                if "No module named" in said or "has no attribute 'parent_process'" in said:
                    continue
                if which:
                    self.assertNotIn("Traceback", said)
                else:
                    self.assertRegex(said, each["shows"])


def add_tests():
    for each in CASES:
        name = each["name"].replace("-", "_")
        if REALLY and not each["shows"]:
            continue
        cls = Really if REALLY else StaticPass
        if each["failing"] or any(pair[0] for pair in each["files"].values()):
            setattr(cls, "test_" + name, lambda self, each=each: self.check(each, 0))
        setattr(cls, "test_" + name + "_healthy", lambda self, each=each: self.check(each, 1))


class Refusals(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([DLPROBE, "spawn-recursion", "--static", *words], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIMEOUT, check=False)
        return done.returncode, done.stderr.decode()

    def test_what_is_not_python_is_said(self):
        for words, code, text in [
                (["--", "true"], 2, "true is not a Python interpreter"),
                (["--", "torchrun", "x.py"], 2, "starts the interpreters itself"),
                ([], 2, "give the command behind --"),
                (["--", PYTHONS[0], "no-such-file.py"], 2, "no-such-file.py: No such file or directory"),
                (["--", PYTHONS[0], os.path.dirname(__file__)], 2, "a folder without a __main__.py"),
                (["--", PYTHONS[0], "-m", "no.such.module"], 2, "not a module of the working folder"),
                (["--", PYTHONS[0]], 2, "names no program"), (["--", "python3.99", "x.py"], 127, "python3.99"),
                (["--", PYTHONS[0], "--version"], 2, "nothing to read")]:
            with self.subTest(words=words):
                status, said = self.refused(*words)
                self.assertEqual(status, code)
                self.assertIn(text, said)

    def test_a_syntax_error_is_a_gap_with_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "prog.py").write_text("import os\ndef f(:\n", encoding="utf-8")
            report = report_of(PYTHONS[0], ["prog.py"], folder)
            self.assertEqual(report["summary"]["verdict"], "incomplete")
            self.assertIn("prog.py:2: syntax error", report["summary"]["headline"])

    def test_a_program_from_standard_input_is_not_read(self):
        report = report_of(PYTHONS[0], ["-"], None)
        self.assertEqual([finding["code"] for finding in report["findings"]], ["DLP0407"])
        self.assertEqual(report["summary"]["verdict"], "incomplete")

    def test_nothing_of_the_program_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            text = "# coding: latin-1\n# \xe9\nopen('ran', 'w')\nimport helper\n"
            Path(folder, "prog.py").write_bytes(text.encode("latin-1"))
            Path(folder, "helper.py").write_text("open('ran', 'w')\n", encoding="utf-8")
            # Beside the program: what an interpreter would import for the reader.
            for name in ("_ast", "os", "sitecustomize", "codecs"):
                Path(folder, name + ".py").write_text("open('ran', 'w')\n", encoding="utf-8")
            for python in PYTHONS:
                report = report_of(python, ["prog.py"], folder)
                self.assertEqual(report["summary"]["verdict"], "pass")
                self.assertEqual(sorted(os.listdir(folder)), ["_ast.py", "codecs.py", "helper.py", "os.py", "prog.py",
                                                              "sitecustomize.py"])

    def test_a_script_is_known_by_its_shebang(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "prog")
            path.write_text(f"#!{PYTHONS[0]}\nimport multiprocessing\nmultiprocessing.Pool(2)\n", encoding="utf-8")
            path.chmod(0o755)
            status, said = self.refused("--", str(path))
            self.assertEqual((status, said), (0, ""))
            self.assertEqual(self.refused("--fail-on", "warning", "--", str(path))[0], 1)


add_tests()
if __name__ == "__main__":
    unittest.main()
