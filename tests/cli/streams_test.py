"""A command under dlprobe is what it is without: streams, terminal, signals, exit; and after it."""

import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import DLPROBE, TIMEOUT, children, dlprobe, python_program, report_of

ISATTY = "import os; print(*[os.isatty(fd) for fd in (0, 1, 2)], flush=True)"


def read_all(fd):
    text = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # the other end of a terminal closed
            return text
        if not piece:
            return text
        text += piece


class Streams(unittest.TestCase):
    def test_output_bytes_pass_unchanged(self):
        program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 100); sys.stderr.write('e\\n')"
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = dlprobe("shm", "--json", "-o", report, "--", *python_program(program))
        self.assertEqual(done.stdout, bytes(range(256)) * 100)
        self.assertEqual(done.stderr, b"e\n")

    def test_standard_input_reaches_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            done = dlprobe("shm", "--json", "-o", os.path.join(folder, "r"), "--", "cat",
                           stdin=None, input=b"one\0two")
        self.assertEqual(done.stdout, b"one\0two")

    def test_a_terminal_stays_a_terminal_and_a_pipe_a_pipe(self):
        self.assertTrue(dlprobe("shm", "-q", "--", *python_program(ISATTY)).stdout.startswith(
            b"False False False\n"))
        main, terminal = pty.openpty()
        with subprocess.Popen([DLPROBE, "shm", "-q", "--", *python_program(ISATTY)], stdin=terminal,
                              stdout=terminal, stderr=terminal) as process:
            os.close(terminal)
            text = read_all(main)
            self.assertEqual(process.wait(TIMEOUT), 0, text)
        os.close(main)
        self.assertTrue(text.startswith(b"True True True\r\n"), text)

    def test_ctrl_c_on_the_terminal_reaches_the_command_once_and_the_report_is_written(self):
        program = ("import signal, time\n"
                   "count = 0\n"
                   "def on_signal(*_):\n"
                   "    global count\n"
                   "    count += 1\n"
                   "signal.signal(signal.SIGINT, on_signal)\n"
                   "print('ready', flush=True)\n"
                   "while not count: time.sleep(0.01)\n"
                   "time.sleep(0.3)\n"
                   "print('signals', count, flush=True)\n")
        main, terminal = pty.openpty()
        with subprocess.Popen([DLPROBE, "shm", "-q", "--", *python_program(program)], stdin=terminal,
                              stdout=terminal, stderr=terminal, start_new_session=True,
                              preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0)) as process:  # TIOCSCTTY
            os.close(terminal)
            text = os.read(main, 100)
            self.assertIn(b"ready", text)
            os.write(main, b"\x03")
            text = read_all(main)
            process.wait(TIMEOUT)
        os.close(main)
        self.assertIn(b"signals 1", text)
        self.assertIn(b"cannot tell", text.split(b"signals 1")[1].lower(), "no verdict after the command's end")

    def test_a_signal_sent_to_dlprobe_is_forwarded(self):
        program = ("import signal, sys, time\n"
                   "signal.signal(signal.SIGTERM, lambda *_: (print('got it', flush=True), sys.exit(5)))\n"
                   "print('ready', flush=True)\n"
                   "time.sleep(100)\n")
        with subprocess.Popen([DLPROBE, "shm", "-q", "--", *python_program(program)],
                              stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.stdout.readline(), b"got it\n")
            process.communicate(timeout=TIMEOUT)

    def test_the_environment_and_the_limits_are_the_same(self):
        program = "import resource, os; print(resource.getrlimit(resource.RLIMIT_NOFILE), sorted(os.environ) )"
        plain = subprocess.run(python_program(program), capture_output=True, check=True)
        watched = dlprobe("shm", "-q", "--no-witness", "--", *python_program(program))
        self.assertEqual(watched.stdout.splitlines()[0], plain.stdout.strip())
        # The witness comes by PYTHONPATH, which the program's own interpreters need as well.
        program = program.replace("sorted(os.environ)", "sorted(set(os.environ) - {'PYTHONPATH'})")
        plain = subprocess.run(python_program(program), capture_output=True, check=True)
        watched = dlprobe("shm", "-q", "--", *python_program(program))
        self.assertEqual(watched.stdout.splitlines()[0], plain.stdout.strip())

    def test_the_time_is_up_and_the_command_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            ready = os.path.join(folder, "pid")
            # It lets go of the streams, or this test would wait for its end.
            program = (f"import os, time; open({ready!r}, 'w').write(str(os.getpid())); "
                       "null = os.open('/dev/null', os.O_WRONLY); os.dup2(null, 1); os.dup2(null, 2); "
                       "time.sleep(60)")
            done = dlprobe("shm", "--for", "1s", "-q", "--", *python_program(program))
            with open(ready, encoding="ascii") as file:
                pid = int(file.read())
        self.assertIn(str(pid).encode(), done.stderr)
        os.kill(pid, 0)  # it lives
        os.kill(pid, signal.SIGKILL)

    def test_a_healthy_command_passes_whatever_its_own_exit_code(self):
        done = dlprobe("shm", "-q", "--", "sh", "-c", "exit 9")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(children(), [])

    def test_a_grandchild_that_outlives_the_command_does_not_hold_dlprobe(self):
        started = time.monotonic()
        done = dlprobe("shm", "-q", "--", "sh", "-c", "sleep 40 >/dev/null 2>&1 & echo $!")
        os.kill(int(done.stdout.split()[0]), signal.SIGKILL)
        self.assertLess(time.monotonic() - started, 30)

    def test_secrets_do_not_reach_the_report(self):
        report = report_of("shm", "--", *python_program("import time; time.sleep(0.3)", "--password=hunter2",
                                                        "--api-key", "abcdef123456"))
        text = str(report)
        self.assertNotIn("hunter2", text)
        self.assertNotIn("abcdef123456", text)
        self.assertIn("--password", text)

    def test_a_closed_stdout_is_no_crash(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = dlprobe("shm", "--json", "--", "true", stdout=write_end)
        os.close(write_end)
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_files_are_private(self):
        with tempfile.TemporaryDirectory() as folder:
            report, recording = os.path.join(folder, "r.json"), os.path.join(folder, "r.dlrec")
            dlprobe("shm", "-q", "-f", f"json={report}", "--record", recording, "--", "true")
            for path in (report, recording):
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600, path)
            self.assertEqual(sorted(os.listdir(folder)), ["r.dlrec", "r.json"])


if __name__ == "__main__":
    sys.exit(unittest.main())
