"""Start methods from outside: what the shim changes in a Python command, what it leaves alone, what is left of it."""

import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

from support import DLPROBE, TIMEOUT, children, dlprobe, report_of, wait_until

CASES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "corpus", "cases", "starts")
SAYS_METHOD = """
import multiprocessing, sys
print(multiprocessing.get_start_method(), "sitecustomize" in sys.modules, len(sys.path), sys.flags.verbose)
"""
# Arguments, what the one line has to say.
REFUSED = [
    (["run", "--start-method", "vfork", "--", "true"], "--start-method"),
    (["run", "--num-workers", "-1", "--", "true"], "--num-workers: '-1' is not a whole number"),
    (["run", "--num-workers", "many", "--", "true"], "--num-workers: 'many' is not a whole number"),
    (["run", "--prefetch-factor", "0", "--", "true"], "--prefetch-factor: '0' is not a whole number"),
    (["run", "--sharing-strategy", "none", "--", "true"], "--sharing-strategy"),
    (["run", "--force", "--", "true"], "--force needs --start-method"),
    (["run", "--start-method", "spawn", "--", sys.executable, "-I", "x.py"], "-I, which ignores PYTHONPATH"),
    (["run", "--start-method", "spawn", "--", "env", "-i", sys.executable, "x.py"], "env -i removes PYTHONPATH"),
    (["spawn-recursion", "--", sys.executable, "-S", "x.py"], "-S, which skips sitecustomize"),
    (["spawn-recursion", "--process-budget", "0", "--", "true"], "--process-budget"),
    (["spawn-recursion", "--force"], "--force overrides what a script asks for"),
    (["spawn-recursion", "--depth", "x", "--", "true"], "--depth"),
]

WAITS = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
open(sys.argv[1], "w").close()
signal.pause()
"""


class Interrupted(unittest.TestCase):
    def test_an_experiment_says_so_in_one_line_and_dies_of_the_signal(self):
        for experiment in ("spawn-recursion", "tune"):
            with self.subTest(experiment), tempfile.TemporaryDirectory() as folder:
                ready = os.path.join(folder, "ready")
                with subprocess.Popen([DLPROBE, experiment, "--", sys.executable, "-c", WAITS, ready], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
                    self.assertTrue(wait_until(lambda file=ready: os.path.exists(file)))
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=TIMEOUT)
                self.assertEqual((process.returncode, out, err),
                                 (-signal.SIGINT, "", "dlprobe: interrupted: there is no verdict\n"))


class Shim(unittest.TestCase):
    def run_python(self, options, *program, **changes):
        done = subprocess.run([DLPROBE, "run", *options, "--", sys.executable, *program], capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False, text=True, **changes)
        return done.returncode, done.stdout, done.stderr

    def test_the_default_start_method_is_the_one_asked_for(self):
        for method in ("fork", "spawn", "forkserver"):
            _, out, err = self.run_python(["--start-method", method], "-c", SAYS_METHOD)
            self.assertEqual(out.split()[0], method, err)

    def test_nothing_else_changes(self):
        alone = subprocess.run([sys.executable, "-c", SAYS_METHOD.replace("multiprocessing.get_start_method()", "'x'")],
                               capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        code, out, err = self.run_python(["--start-method", "spawn"], "-c",
                                         SAYS_METHOD.replace("multiprocessing.get_start_method()", "'x'"))
        self.assertEqual((code, out, err), (0, alone.stdout, alone.stderr))

    def test_without_the_witness_nothing_is_loaded(self):
        program = "import os, sys; print('dlprobe_start' in sys.modules, os.environ.get('PYTHONPATH'))"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.assertEqual(self.run_python(["--no-witness"], "-c", program, env=environment)[1], "False None\n")

    def test_the_users_own_sitecustomize_and_path_stay(self):
        program = "import builtins, sitecustomize; print(builtins.own_site_was_here, sitecustomize.__file__)"
        own = os.path.join(CASES, "own_site")
        _, out, err = self.run_python(["--start-method", "spawn"], "-c", program, env=dict(os.environ, PYTHONPATH=own))
        self.assertEqual(out, f"True {own}/sitecustomize.py\n", err)

    def test_a_sitecustomize_that_fails_fails_as_ever(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="ascii") as file:
                file.write("raise ValueError('mine')\n")
            environment = dict(os.environ, PYTHONPATH=folder)
            alone = subprocess.run([sys.executable, "-c", "print(1)"], env=environment, capture_output=True, text=True,
                                   check=False)
            code, out, err = self.run_python(["--start-method", "spawn"], "-c", "print(1)", env=environment)
        self.assertEqual((code, out), (alone.returncode, alone.stdout))
        self.assertEqual(err, alone.stderr)

    def test_a_script_that_insists_keeps_its_method_unless_forced(self):
        script = os.path.join(CASES, "own_context.py")
        program = ("import multiprocessing as m, sys; c = m.get_context('fork'); print(c.get_start_method())",)
        _, out, err = self.run_python(["--start-method", "spawn"], "-c", *program)
        self.assertEqual(out, "fork\n")
        self.assertIn("start method spawn was asked for, but <string>:1 itself asks for fork (--force", err)
        self.assertEqual(self.run_python(["--start-method", "spawn", "--force"], "-c", *program)[1:], ("spawn\n", ""))
        report = report_of("spawn-recursion", "--start-method", "spawn", "--", sys.executable, script, "fork")
        self.assertEqual(report["summary"]["verdict"], "incomplete")
        self.assertIn("own_context.py", report["limitations"][0]["why"])

    def test_each_trial_has_the_whole_input(self):
        program = ("import multiprocessing as m, sys; text = sys.stdin.read(); print(len(text)); "
                   "p = m.Process(target=print, args=(1,)); p.start(); p.join()")
        with tempfile.TemporaryFile() as file:
            file.write(b"12345")
            file.seek(1)
            done = subprocess.run([DLPROBE, "spawn-recursion", "-q", "--", sys.executable, "-c", program], stdin=file,
                                  capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.stdout.split(b"\n").count(b"4"), 2, done)

    def test_a_command_that_is_no_python_is_told(self):
        done = dlprobe("run", "--start-method", "spawn", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"no Python interpreter of the command", done.stderr)

    def test_bad_input_is_refused_in_one_line(self):
        for arguments, words in REFUSED:
            done = dlprobe(*arguments)
            with self.subTest(arguments=arguments):
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr.decode())

    def test_the_programs_exit_code_and_error_pass_through(self):
        code, _, err = self.run_python(["--start-method", "spawn"], "-c", "def (:")
        self.assertEqual(code, 1)
        self.assertIn("SyntaxError", err)

    def test_nothing_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_python(["--start-method", "spawn"], os.path.join(CASES, "guarded.py"),
                            env=dict(os.environ, TMPDIR=folder))
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(children(), [])


LOCKED_WORKER = """
import multiprocessing, threading
lock = threading.Lock()
def work(item):
    with lock:
        return item
if __name__ == "__main__":
    {hold}
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
"""


class Views(unittest.TestCase):
    """What one probe says of a cause that is another's."""

    def look(self, probe, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            command = [DLPROBE, probe, "-q", "-f", "json=" + path, "--for", "20s", "--", sys.executable, "-c", text]
            run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                run.wait(TIMEOUT)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGKILL)  # what hangs goes on
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        found = {finding["code"]: finding["severity"] for finding in report["findings"]}
        return found, report["summary"]["headline"], run.returncode

    def test_an_exception_is_known(self):
        for probe in ("shm", "deadlock"):
            found, headline, code = self.look(probe, "import json; json.loads('{')")
            self.assertEqual((found, code), ({"DLP0514": "info"}, 0))
            self.assertIn("Found beside: DLP0514 uncaught-exception", headline)

    def test_a_hang_is_known(self):
        found, headline, code = self.look("fd", LOCKED_WORKER.format(hold="lock.acquire()"))
        self.assertEqual((found, code), ({"DLP0306": "info"}, 0))
        self.assertIn("Found beside: DLP0306", headline)

    def test_nothing_is_found_beside_a_healthy_one(self):
        found, headline, code = self.look("fd", LOCKED_WORKER.format(hold="pass"))
        self.assertEqual((found, code), ({}, 0))
        self.assertNotIn("beside", headline)


class Killed(unittest.TestCase):
    PROGRAM = """
import multiprocessing, os, sys, time
def work(log):
    with open(log, "a", encoding="ascii") as file:
        file.write("%d\\n" % os.getpid())
    time.sleep(1000)
if __name__ == "__main__":
    for _ in range(3):
        multiprocessing.Process(target=work, args=(sys.argv[1],)).start()
"""

    def test_a_trial_ends_with_dlprobe(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            program = os.path.join(folder, "program.py")
            with open(program, "w", encoding="ascii") as file:
                file.write(self.PROGRAM)
            with subprocess.Popen([DLPROBE, "spawn-recursion", "--", sys.executable, program, log], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=folder)) as process:
                self.assertTrue(wait_until(lambda: os.path.exists(log) and len(pids_in(log)) == 3))
                process.kill()
                process.wait(TIMEOUT)
            self.assertTrue(wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids_in(log))))
            self.assertTrue(wait_until(lambda: not glob.glob(os.path.join(folder, "dlprobe-*"))))

    # As sem_open(3) of glibc: a file of a name that nobody knows, linked to its own name when it is whole.
    MAKES_SEMAPHORES = """
import _multiprocessing, mmap, multiprocessing, os, sys
def work(log):
    kept = _multiprocessing.SemLock(1, 1, 1, "/mp-" + sys.argv[2], False)
    other = _multiprocessing.SemLock(1, 1, 1, "/of-" + sys.argv[2], False)
    half = os.open("/dev/shm/sem." + sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with open(log, "a", encoding="ascii") as file:
        file.write("%d\\n" % os.getpid())
    multiprocessing.Event().wait()
if __name__ == "__main__":
    multiprocessing.Process(target=work, args=(sys.argv[1],)).start()
"""

    def test_of_semaphores_those_that_no_process_can_find_again(self):
        mark = f"t{os.getpid():05}"[-6:]
        names = {kind: f"/dev/shm/sem.{kind}{mark}" for kind in ("mp-", "of-", "")}
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            for name in names.values():
                stack.callback(lambda name=name: os.path.exists(name) and os.unlink(name))
            log, program = os.path.join(folder, "log"), os.path.join(folder, "program.py")
            with open(program, "w", encoding="ascii") as file:
                file.write(self.MAKES_SEMAPHORES)
            with subprocess.Popen([DLPROBE, "spawn-recursion", "--", sys.executable, program, log, mark], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=folder)) as process:
                self.assertTrue(wait_until(lambda: os.path.exists(log) and pids_in(log)))
                process.kill()
                process.wait(TIMEOUT)
            self.assertTrue(wait_until(lambda: not glob.glob(os.path.join(folder, "dlprobe-*"))))
            # One with a name of the user's own may be meant for others.
            self.assertEqual([kind for kind, name in names.items() if os.path.exists(name)], ["of-"])


def pids_in(log):
    with open(log, encoding="ascii") as file:
        return file.read().split()


class Recursion(unittest.TestCase):
    """A program that starts itself three times over, as that does."""

    ROUNDS = int(os.environ.get("DLPROBE_RECURSION_ROUNDS", "5"))
    PROGRAM = """
import os, subprocess, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(log, b"x")
os.close(log)
started = [subprocess.Popen([sys.executable, __file__, sys.argv[1]]) for _ in range(3)]
for child in started:
    child.wait()
"""

    def test_is_ended_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "itself.py")
            with open(program, "w", encoding="ascii") as file:
                file.write(self.PROGRAM)
            for number in range(self.ROUNDS):
                self.end_one(program, os.path.join(folder, f"log{number}"), os.path.join(folder, "report.json"))

    def end_one(self, program, log, report_path):
        done = dlprobe("spawn-recursion", "--start-method", "spawn", "--process-budget", "20", "-f", f"json={report_path}",
                       "--", sys.executable, program, log)
        with open(report_path, encoding="utf-8") as file:
            report = json.load(file)
        seen = sum(1 for process in report["processes"])
        self.assertLessEqual(seen, 20 + 8)
        self.assertEqual(report["findings"][0]["code"], "DLP0409", done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(children(), [])
        left = subprocess.run(["pgrep", "-f", program], capture_output=True, text=True, check=False).stdout
        self.assertEqual(left, "")


if __name__ == "__main__":
    unittest.main()
