"""`dlprobe run`: the command is what it is without, nothing is said where nothing is wrong, and a hang is told."""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import DLPROBE, TIMEOUT, children, dlprobe, python_program

# A worker reads from a pipe that nobody writes to, and its parent waits for its end: a circle.
HANGS = """
import os, sys
from multiprocessing import Pipe, Process
def work(pipe):
    pipe.recv()
if __name__ == "__main__":
    ours, theirs = Pipe()
    worker = Process(target=work, args=(theirs,))
    worker.start()
    print(os.getpid(), worker.pid, flush=True)
    worker.join()
"""
# The worker waits for a lock that says who has it: a thread that fork did not copy.
LOCKED = """
import threading
from multiprocessing import get_context
LOCK = threading.RLock()
HELD = threading.Event()
def hold():
    LOCK.acquire()
    HELD.set()
    threading.Event().wait()
def work():
    with LOCK:
        pass
if __name__ == "__main__":
    threading.Thread(target=hold, daemon=True).start()
    HELD.wait()
    worker = get_context("fork").Process(target=work)
    worker.start()
    worker.join()
"""
# Nothing moves for a while, then the same worker goes on.
PAUSES = """
import sys, time
from multiprocessing import Pipe, Process
def work(pipe):
    while pipe.recv(): pipe.send(1)
if __name__ == "__main__":
    ours, theirs = Pipe()
    worker = Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    for pause in (0, 5, 0):
        time.sleep(pause)
        ours.send(1)
        ours.recv()
    ours.send(0)
    worker.join()
"""
# A child that crashes on purpose, while its parent goes on.
CRASHES = """
import os, signal, time
child = os.fork()
if child == 0:
    time.sleep(1)  # in which it is seen
    os.kill(os.getpid(), signal.SIGABRT)
os.waitpid(child, 0)
time.sleep(2)
"""


def run(*arguments, command, **options):
    return dlprobe("run", *arguments, "--", *command, **options)


class Transparent(unittest.TestCase):
    def test_exit_codes_pass_through(self):
        for code in (0, 1, 2, 3, 4, 77, 125, 255):
            self.assertEqual(run(command=["sh", "-c", f"exit {code}"]).returncode, code)

    def test_a_signal_is_128_and_its_number(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assertEqual(run(command=["sh", "-c", f"kill -{int(number)} $$"]).returncode, 128 + number)

    def test_ctrl_c_ends_dlprobe_by_the_same_signal(self):
        # A shell goes on with its loop where the code is 130 and nothing more.
        done = run(command=["sh", "-c", "kill -INT $$"])
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGINT, b""))

    def test_a_reader_that_has_enough_is_no_news(self):
        done = run(command=["sh", "-c", "kill -PIPE $$"])
        self.assertEqual((done.returncode, done.stderr), (128 + signal.SIGPIPE, b""))

    def test_a_hang_up_reaches_the_command_where_dlprobe_leads_the_session(self):
        with tempfile.TemporaryDirectory() as folder:
            told = os.path.join(folder, "told")
            program = f"trap 'echo up > {told}; exit' HUP; echo ready; while :; do sleep 0.1; done"
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv(DLPROBE, [DLPROBE, "run", "--", "sh", "-c", program])
            read = b""
            while b"ready" not in read:
                read += os.read(terminal, 100)
            os.close(terminal)
            os.waitpid(pid, 0)
            with open(told, encoding="utf-8") as file:
                self.assertEqual(file.read(), "up\n")

    def test_no_such_command_and_not_executable(self):
        self.assertEqual(run(command=["no-such-command"]).returncode, 127)
        self.assertEqual(run(command=["/etc/passwd"]).returncode, 126)

    def test_nothing_is_printed_where_nothing_is_wrong(self):
        done = run(command=["sh", "-c", "echo out; echo err >&2"])
        self.assertEqual((done.stdout, done.stderr), (b"out\n", b"err\n"))

    def test_a_crash_that_the_program_handles_is_no_news(self):
        done = run(command=python_program(CRASHES))
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_one_line_with_v(self):
        done = run("-v", command=["sh", "-c", "echo out"])
        self.assertEqual(done.stdout, b"out\n")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_failure_that_is_not_explained_is_one_line(self):
        done = run(command=["sh", "-c", "exit 3"])
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"exit code 3", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_files_are_written_whatever_happens(self):
        with tempfile.TemporaryDirectory() as folder:
            report, recording = os.path.join(folder, "r.json"), os.path.join(folder, "r.dlrec")
            done = run("-f", f"json={report}", "--record", recording, command=["true"])
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
            with open(report, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["summary"]["verdict"], "pass")
            replayed = dlprobe("replay", recording, "--json")
            self.assertEqual(json.loads(replayed.stdout)["summary"]["verdict"], "pass", replayed.stderr)

    def test_streams_are_those_of_the_command(self):
        program = "import os; print(*[os.isatty(fd) for fd in (0, 1, 2)], flush=True)"
        main, terminal = pty.openpty()
        with subprocess.Popen([DLPROBE, "run", "--", *python_program(program)], stdin=terminal, stdout=terminal,
                              stderr=terminal) as process:
            os.close(terminal)
            with open(main, "rb", buffering=0, closefd=False) as screen:
                self.assertEqual(screen.readline().strip(), b"True True True")
            self.assertEqual(process.wait(TIMEOUT), 0)
        os.close(main)
        done = run(command=["cat"], stdin=None, input=b"one\0two")
        self.assertEqual(done.stdout, b"one\0two")

    def test_signals_reach_the_command(self):
        program = ("import signal, sys\n"
                   "signal.signal(signal.SIGUSR1, lambda *_: print('usr1', flush=True))\n"
                   "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
                   "print('ready', flush=True)\n"
                   "while True: signal.pause()\n")
        with subprocess.Popen([DLPROBE, "run", "--", *python_program(program)], stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(signal.SIGUSR1)
            self.assertEqual(process.stdout.readline(), b"usr1\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(TIMEOUT), 5)

    def test_the_command_goes_on_when_dlprobe_is_killed(self):
        program = "import sys; print('ready', flush=True); print(sys.stdin.readline(), end='', flush=True)"
        with subprocess.Popen([DLPROBE, "run", "--", *python_program(program)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.kill()
            process.wait(TIMEOUT)
            process.stdin.write(b"still here\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), b"still here\n")

    def test_commands_that_start_others(self):
        for command in (["sh", "-c", "exec true"], ["nohup", "true"], ["setsid", "-w", "true"],
                        [DLPROBE, "run", "--", "sh", "-c", "exit 0"]):
            done = run(command=command)
            self.assertEqual(done.returncode, 0, (command, done.stderr))
        self.assertEqual(run(command=[DLPROBE, "run", "--", "sh", "-c", "exit 9"]).returncode, 9)

    def test_a_daemon_does_not_hold_dlprobe(self):
        started = time.monotonic()
        done = run(command=["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"])
        pid = int(done.stdout)
        os.kill(pid, signal.SIGKILL)  # it lives
        self.assertLess(time.monotonic() - started, 30)
        self.assertEqual(done.returncode, 0)


class OnFailure(unittest.TestCase):
    TELL = 'echo "told $DLPROBE_EXIT_CODE $DLPROBE_VERDICT $(test -s "$DLPROBE_REPORT" && echo report)" >&2'

    def test_it_is_run_when_the_command_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "r.json")
            done = run("--on-failure", self.TELL, "-f", f"json={report}", command=["sh", "-c", "exit 9"])
        self.assertEqual((done.returncode, done.stdout), (9, b""))
        self.assertIn(b"told 9 pass report", done.stderr)

    def test_it_is_not_run_when_all_is_well(self):
        done = run("--on-failure", self.TELL, command=["true"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class Hang(unittest.TestCase):
    def test_a_hang_is_reported_while_it_lasts(self):
        with subprocess.Popen([DLPROBE, "run", "--hang-after", "1s", "--", *python_program(HANGS)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            trainer, worker = map(int, process.stdout.readline().split())
            said = b""
            while b"Waits   " not in said:
                line = process.stderr.readline()
                self.assertTrue(line, said)
                said += line
            os.kill(worker, 0)  # all live
            os.kill(trainer, signal.SIGKILL)
            os.kill(worker, signal.SIGKILL)
            _, rest = process.communicate(timeout=TIMEOUT)
        self.assertIn(b"the command hangs", said)
        self.assertIn(str(worker).encode(), said)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, rest)

    def test_one_that_is_interrupted_long_before_is_told_as_a_hang(self):
        with subprocess.Popen([DLPROBE, "run", "--", *python_program(LOCKED)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, start_new_session=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
            said = process.stderr.readline()
            self.assertIn(b"the command still runs", said)
            os.killpg(process.pid, signal.SIGINT)
            _, rest = process.communicate(timeout=TIMEOUT)
        report = rest.partition(b"FAIL  ")[2]
        self.assertTrue(report.startswith(b"DLP03"), rest)
        self.assertIn(b"Waits   ", report)
        self.assertNotIn(b"DLP0503", report)

    def test_it_is_killed_whole_where_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "r.json")
            done = run("--hang-after", "1s", "--on-hang", "kill", "-f", f"json={report}", command=python_program(HANGS))
            with open(report, encoding="utf-8") as file:
                findings = json.load(file)["findings"]
        self.assertEqual(done.returncode, 128 + signal.SIGTERM, done.stderr)
        self.assertTrue(findings[0]["code"].startswith("DLP03"), findings)
        self.assertIn(b"dlprobe ended it", done.stderr)
        for pid in map(int, done.stdout.split()):
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)
        self.assertEqual(children(), [])

    def test_a_pause_is_no_hang(self):
        done = run("--hang-after", "1s", "--on-hang", "kill", command=python_program(PAUSES))
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class BadInput(unittest.TestCase):
    def test_no_command(self):
        for arguments in (["run"], ["run", "--"]):
            done = dlprobe(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"run needs a command", done.stderr)

    def test_values_that_make_no_sense(self):
        for option, value in (("--hang-after", "0s"), ("--hang-after", "soon"), ("--on-hang", "reboot"),
                              ("-f", "json=/no/such/folder/r.json"), ("-f", "yaml"), ("--record", "/no/such/r.dlrec")):
            done = run(option, value, command=["sh", "-c", "echo started"])
            self.assertEqual((done.returncode, done.stdout), (2, b""), (option, value, done.stderr))
            self.assertNotEqual(done.stderr, b"")

    def test_limits_that_make_no_sense(self):
        for option, value in (("--limit-memory", "0"), ("--limit-fds", "-1"), ("--shm-size", "much")):
            done = run(option, value, command=["sh", "-c", "echo started"])
            self.assertEqual((done.returncode, done.stdout), (2, b""), (option, value, done.stderr))


if __name__ == "__main__":
    sys.exit(unittest.main())
