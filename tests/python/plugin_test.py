"""The pytest plugin on real loaders: loaders.py says which.

usage: plugin_test.py PYTHON      one that has torch and pytest
environment: DLPROBE, and PLUGIN_PATH: where the module dlprobe is
"""

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = sys.argv.pop(1)

# What each test that is not healthy must say, and whether in the test or when it is torn down.
EXPECTED = {
    "test_keeps_batches": ("error", r"8 file descriptors are left open, 8 of them shared memory that is kept"),
    "test_keeps_a_segment": ("error", r"1 files are left in /dev/shm\n  psm_"),
    "test_keeps_workers": ("error", r"2 processes that the test started are left"),
    "test_keeps_a_file": ("error", r"1 file descriptors are left open\n  \d+: .*loaders\.py"),
    "test_worker_crashes": ("error", r"worker \d+ was killed by SIGKILL"),
    "test_worker_exits": ("error", r"worker \d+ exited by itself with code 3"),
    "test_hangs": ("failure", r"not done after 2 s\n[E ]*FAIL  DLP0306 python-lock-inherited(.|\n)*in[E\s]+take_lock"),
    "test_hangs_and_swallows_exceptions": ("failure", r"not done after 2 s\n[E ]*FAIL  DLP0306"),
    "test_hangs_without_workers":
        ("failure", r"not done after 2 s\n[E ]*FAIL  DLP0303 lock-cycle(.|\n)*in[E\s]+test_hangs_without_workers"),
}

# Of loaders_of_scopes.py: told when the fixtures are done, which is after the last test of the class.
OF_SCOPES = {
    "TestKeptLoader.test_second": r"left at the end of \S+::TestKeptLoader, first seen after \S+::test_first\n"
                                  r"dlprobe: 2 processes that it started are left",
    "TestStartedAndKeptLoader.test_first": r"first seen after the set-up of the fixture loader_that_is_started_and_kept\n"
                                           r"dlprobe: 2 processes that it started are left",
    "TestLeakBesideAFixture.test_second": r"TestLeakBesideAFixture, first seen after \S+::test_first\n"
                                          r"dlprobe: 1 file descriptors are left open\n  \d+: .*loaders_of_scopes\.py",
    "TestFailureBesideAFixture.test_first": r"ValueError",
    "TestAfterAll.test_leaks_with_tmp_path": r"dlprobe: 1 file descriptors are left open\n  \d+: .*file",
}


def run_pytest(*arguments, before=(), with_class=False):
    """(exit status, test name -> (outcome, text), output)."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bin" / "dlprobe"
        program.parent.mkdir()
        program.symlink_to(os.environ["DLPROBE"])
        environment = dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1",
                           PYTHONPATH=os.environ["PLUGIN_PATH"])
        results = Path(folder) / "results.xml"
        done = subprocess.run(
            [*before, PYTHON, "-m", "pytest", "-p", "dlprobe.pytest_plugin", "-p", "no:cacheprovider", f"--rootdir={HERE}",
             f"--junitxml={results}", *map(str, arguments)],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=600, check=False)
        outcomes = {}
        if results.exists():
            for case in xml.etree.ElementTree.parse(results).iter("testcase"):
                bad = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
                found = ("passed", "") if bad is None else (bad.tag, f"{bad.get('message')}\n{bad.text}")
                name = f"{case.get('classname').split('.')[-1]}.{case.get('name')}" if with_class else case.get("name")
                # A test that passed and is then torn down with an error is listed twice by some versions.
                if outcomes.get(name, ("passed",))[0] == "passed":
                    outcomes[name] = found
        return done.returncode, outcomes, done.stdout


class PluginTest(unittest.TestCase):
    maxDiff = None

    def test_a_pool_that_is_left_does_not_keep_pytest_from_its_end(self):
        status, outcomes, output = run_pytest("--dlprobe", HERE / "pool_left.py")
        self.assertEqual(status, 1, output)
        self.assertRegex(outcomes["test_leaves_a_pool"][1], "2 processes that the test started are left")

    def tearDown(self):
        for name in getattr(self, "segments", ()):
            Path("/dev/shm", name).unlink(missing_ok=True)

    def check(self, *arguments, expected):
        status, outcomes, output = run_pytest("--dlprobe", *arguments, HERE / "loaders.py")
        self.segments = set(re.findall(r"\bpsm_\w+", output))
        self.assertEqual(status, 1, output)
        healthy = {name for name, (outcome, _) in outcomes.items() if outcome == "passed"}
        self.assertEqual(healthy, set(outcomes) - set(expected), output)
        self.assertIn("test_after_all", healthy)
        for name, (outcome, pattern) in expected.items():
            with self.subTest(name):
                self.assertEqual(outcomes[name][0], outcome, output)
                self.assertRegex(outcomes[name][1], pattern)

    def test_each_loader_is_judged_rightly(self):
        self.check(expected=EXPECTED)

    def test_beside_other_tests(self):
        if subprocess.run([PYTHON, "-c", "import xdist"], capture_output=True, check=False).returncode:
            self.skipTest("needs pytest-xdist: apt-get install python3-pytest-xdist")
        # The segment that nobody holds may be that of a test beside it: left out there. And a thread of pytest-xdist, which
        # waits for its controller, might release a lock as well as the main thread.
        outcome = "failure", r"not done after 2 s\n(.|\n)*\(test_hangs_without_workers"
        of_each_kind = ("test_keeps_workers", "test_keeps_a_file", "test_worker_crashes")
        self.check("-n", "2", "-k", "healthy_pool or healthy_with_a or keeps_a or keeps_workers or crashes or hangs_without or after_all",
                   expected={**{name: EXPECTED[name] for name in of_each_kind}, "test_hangs_without_workers": outcome})

    def test_it_does_nothing_unless_asked(self):
        status, outcomes, output = run_pytest("-k", "keeps_a_file or worker_exits", HERE / "loaders.py")
        self.assertEqual((status, {outcome for outcome, _ in outcomes.values()}), (0, {"passed"}), output)

    def test_what_fixtures_of_wider_scopes_hold_is_judged_when_they_are_done(self):
        status, outcomes, output = run_pytest("--dlprobe", HERE / "loaders_of_scopes.py", with_class=True)
        self.assertEqual(status, 1, output)
        self.assertEqual({name for name, (outcome, _) in outcomes.items() if outcome != "passed"}, set(OF_SCOPES), output)
        for name, pattern in OF_SCOPES.items():
            with self.subTest(name):
                self.assertRegex(outcomes[name][1], pattern)

    def test_what_is_left_where_pytest_ends_early_is_printed(self):
        status, _, output = run_pytest("--dlprobe", "-x", "-k", "TestLeakBesideAFixture or TestFailureBesideAFixture",
                                       HERE / "loaders_of_scopes.py")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"first seen after \S+TestLeakBesideAFixture::test_first")
        self.assertNotIn("INTERNALERROR", output)

    def check_end_of_session(self, name, *before):
        status, _, output = run_pytest(HERE / "loader_in_c.py", "-k", name, before=before)
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, rf"loader_in_c.py::{name}\ndlprobe: the test was not done after 1 s\n(.|\n)*in\s+lock_twice")
        self.assertIn("cannot be ended: pytest ends here", output)

    def test_what_waits_outside_of_python_ends_the_session(self):
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.check_end_of_session, ("test_hangs_in_c", "test_hangs_with_the_gil")))

    def test_what_holds_the_gil_is_told_when_it_returns(self):
        status, outcomes, output = run_pytest(HERE / "loader_in_c.py", "-k", "sleeps or returns")
        self.assertEqual(status, 1, output)
        self.assertEqual(outcomes["test_returns_from_c"][0], "passed")
        self.assertRegex(outcomes["test_sleeps_with_the_gil"][1], r"not done after 1 s\n(.|\n)*test_sleeps_with_the_gil")

    def test_nothing_of_it_is_in_the_process(self):
        status, _, output = run_pytest(HERE / "loader_in_c.py", "-k", "is_alone")
        self.assertEqual(status, 0, output)

    def test_nothing_of_it_outlives_the_session(self):
        with tempfile.NamedTemporaryFile("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.environ["LOCKED_FILE"] = file.name
            # Reads until nobody has the terminal; pytest would keep copies of it.
            status, _, output = run_pytest(HERE / "loader_in_c.py", "-k", "is_killed", "-s", "-p", "no:faulthandler")
        self.assertEqual(status, -signal.SIGKILL, output)

    def test_as_process_1_of_a_container(self):
        container = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
        if subprocess.run([*container, "true"], capture_output=True, check=False).returncode:
            self.skipTest("user namespaces are not allowed here")
        self.check_end_of_session("test_hangs_with_the_gil", *container)
        status, outcomes, output = run_pytest("--dlprobe", "-k", "healthy_pool or healthy_with_a or healthy_worker", HERE / "loaders.py",
                                              before=container)
        self.assertEqual((status, {outcome for outcome, _ in outcomes.values()}), (0, {"passed"}), output)

    def test_a_marker_that_says_what_there_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test_marker.py"
            path.write_text("import pytest\n@pytest.mark.dlprobe(dead_line=3, allow='fds')\ndef test_it(): pass\n",
                            encoding="utf-8")
            status, _, output = run_pytest(path)
        self.assertNotEqual(status, 0)
        self.assertIn("not dead_line, fds", output)


if __name__ == "__main__":
    missing = subprocess.run([PYTHON, "-c", "import torch, pytest"], capture_output=True, text=True, check=False)
    if missing.returncode:
        print(f"{PYTHON} lacks torch or pytest: {missing.stderr.strip().splitlines()[-1]}: run tools/check --full")
        sys.exit(77)
    unittest.main()
