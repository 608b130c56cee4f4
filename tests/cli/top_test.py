"""dlprobe top in a real terminal emulator (tmux): what the keys do, and how it leaves the terminal."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from support import DLPROBE, FORKING_JOB, TIMEOUT, dlprobe, wait_until


class Terminal:
    """A shell in a terminal of tmux."""

    def __init__(self, folder, columns=80, lines=24, **environment):
        self.folder = folder
        self.tmux = ["tmux", "-S", os.path.join(folder, "tmux"), "-f", "/dev/null"]
        shell = "env -u TMUX PS1=ready: LC_ALL=C.UTF-8 " + " ".join(f"{name}={value}" for name, value in environment.items())
        self.call("new-session", "-d", "-x", columns, "-y", lines, "-c", folder, f"{shell} bash --norc --noprofile")

    def call(self, *arguments):
        return subprocess.run([*self.tmux, *map(str, arguments)], stdout=subprocess.PIPE, check=True, timeout=TIMEOUT).stdout.decode()

    def screen(self):
        return self.call("capture-pane", "-p")

    def keys(self, *keys):
        self.call("send-keys", *keys)

    def type_line(self, text):
        self.call("send-keys", "-l", text)
        self.keys("Enter")

    def pid(self):
        """Of the shell."""
        return int(self.call("display-message", "-p", "#{pane_pid}"))

    def is_open(self):
        return subprocess.run([*self.tmux, "has-session"], capture_output=True, check=False, timeout=TIMEOUT).returncode == 0

    def close(self):
        if self.is_open():
            self.call("kill-server")


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        pids = file.read().split()
    return int(pids[0]) if pids else None


@unittest.skipUnless(shutil.which("tmux"), "needs tmux: apt-get install tmux")
class Top(unittest.TestCase):
    def setUp(self):
        self.open = contextlib.ExitStack()
        self.addCleanup(self.open.close)
        self.folder = self.open.enter_context(tempfile.TemporaryDirectory())
        self.job = self.open.enter_context(subprocess.Popen([sys.executable, "-c", FORKING_JOB, "pt_data_worker"],
                                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.open.callback(self.end_job)
        self.pid = int(self.job.stdout.readline())

    def end_job(self):
        with contextlib.suppress(OSError, ValueError):
            self.job.stdin.close()

    def terminal(self, **options):
        terminal = Terminal(self.folder, **options)
        self.open.callback(terminal.close)
        self.assert_shows(terminal, "ready:")
        return terminal

    def top(self, terminal, *options):
        """Starts it between two looks at the terminal's modes; its pid."""
        command = " ".join([os.path.abspath(DLPROBE), "top", str(self.pid), *options])
        terminal.type_line(f"clear; stty -g >before; {command}; echo code=$?; stty -g >after; echo done")
        self.assert_shows(terminal, "q quit")
        return child_of(terminal.pid())

    def assert_shows(self, terminal, *texts, without=()):
        def shows():
            screen = terminal.screen()
            return all(text in screen for text in texts) and not any(text in screen for text in without)
        self.assertTrue(wait_until(shows), f"{texts} without {without}:\n{terminal.screen()}")

    def assert_left_as_it_was(self, terminal, code):
        self.assert_shows(terminal, f"code={code}", "done", without=("q quit",))
        modes = []
        for name in ("before", "after"):
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                modes.append(file.read())
        self.assertEqual(*modes)
        # The screen before is back, and the cursor to be seen.
        self.assertEqual(terminal.call("display-message", "-p", "#{alternate_on} #{cursor_flag} #{keypad_flag}").strip(), "0 1 0")

    def test_one_frame_as_text(self):
        done = dlprobe("top", self.pid, "--once", env={**os.environ, "COLUMNS": "60"})
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        text = done.stdout.decode()
        self.assertIn("2 workers", text)
        self.assertRegex(text, rf"(?m)^trainer +{self.pid} +0 +[\d.]+M +waits for a pipe$")
        self.assertLessEqual(max(map(len, text.splitlines())), 60)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("still", text)

    def test_what_is_no_terminal_is_told(self):
        done = dlprobe("top", self.pid)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"stdin and stdout are no terminal: use --once", done.stderr)

    def test_what_is_no_process_is_told(self):
        gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
        for options in ([], ["--once"]):
            done = dlprobe("top", int(gone.stdout), *options)
            self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)

    def test_keys(self):
        terminal = self.terminal()
        self.top(terminal)
        self.assert_shows(terminal, "2 workers", f"trainer {self.pid:10}", " worker 0", " worker 1", "PSS", "waits for a pipe")
        terminal.keys("m")
        self.assert_shows(terminal, "sorted by RSS")
        terminal.keys("h")
        self.assert_shows(terminal, "Sort by", "q back", without=("worker 0",))
        terminal.keys("q")
        self.assert_shows(terminal, "worker 0", "q quit")
        terminal.keys("o", "Down", "j", "s")
        self.assert_shows(terminal, "stacks of process", "worker", "pt_data_worker", "q back")
        terminal.keys("Escape")
        self.assert_shows(terminal, "worker 0", "q quit")
        terminal.keys("Space")
        self.assert_shows(terminal, "paused")
        terminal.keys("Space")
        self.assert_shows(terminal, without=("paused",))
        terminal.keys("q")
        self.assert_left_as_it_was(terminal, 0)

    def test_a_report_is_shown_and_written(self):
        terminal = self.terminal(columns=100)
        self.top(terminal)
        terminal.keys("r")
        self.assert_shows(terminal, f"report: dlprobe-{self.pid}-", "q back")
        (path,) = glob.glob(os.path.join(self.folder, f"dlprobe-{self.pid}-*.html"))
        with open(path, encoding="utf-8") as file:
            self.assertIn("<html", file.read())
        terminal.keys("q", "q")
        self.assert_left_as_it_was(terminal, 0)

    def test_it_takes_the_size_of_the_terminal(self):
        terminal = self.terminal()
        self.top(terminal)
        self.assert_shows(terminal, "PSS     shm")
        terminal.call("resize-window", "-x", 60, "-y", 12)
        self.assert_shows(terminal, "RSS   still state", "q quit", without=("PSS     shm",))
        terminal.call("resize-window", "-x", 120, "-y", 20)
        self.assert_shows(terminal, "fds    io/s   still", "q quit")
        terminal.keys("q")
        self.assert_left_as_it_was(terminal, 0)

    def test_a_signal_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT):
            with self.subTest(signal=number.name):
                terminal = self.terminal()
                os.kill(self.top(terminal), number)
                # A shell ends its line with a command that Ctrl-C has ended.
                if number == signal.SIGINT:
                    self.assert_shows(terminal, "ready:", without=("q quit",))
                    terminal.type_line("stty -g >after; echo code=130 done")
                self.assert_left_as_it_was(terminal, 128 + number)
                terminal.type_line("exit")
                self.assertTrue(wait_until(lambda: not terminal.is_open()))

    def test_ctrl_z_and_back(self):
        terminal = self.terminal()
        self.top(terminal)
        terminal.keys("C-z")
        self.assert_shows(terminal, "Stopped", "done", without=("q quit",))
        terminal.type_line("stty -g >after")
        self.assert_left_as_it_was(terminal, 148)
        terminal.type_line("clear; fg")
        self.assert_shows(terminal, "worker 0", "q quit")
        terminal.keys("q")
        self.assert_shows(terminal, "ready:", without=("q quit",))

    def test_the_last_look_at_a_job_that_ended_stays(self):
        terminal = self.terminal()
        self.top(terminal)
        self.job.stdin.close()
        self.assert_shows(terminal, "ended (", "trainer", "q quit")
        terminal.keys("q")
        self.assert_left_as_it_was(terminal, 0)

    def test_what_was_seen_is_kept(self):
        terminal = self.terminal()
        self.top(terminal, "--record seen.dlrec")
        terminal.keys("q")
        self.assert_left_as_it_was(terminal, 0)
        done = dlprobe("replay", os.path.join(self.folder, "seen.dlrec"))
        self.assertIn(done.returncode, (0, 1, 3), done.stderr)
        self.assertIn(str(self.pid).encode(), dlprobe("replay", os.path.join(self.folder, "seen.dlrec"), "-v").stdout)

    def test_a_terminal_that_nobody_knows(self):
        terminal = self.terminal(TERM="made-up")
        self.top(terminal)
        self.assert_shows(terminal, "trainer", "worker 1", "waits for a pipe")
        terminal.keys("Down")
        terminal.keys("q")
        self.assert_shows(terminal, "code=0", without=("q quit",))

    def test_hostile_names_do_not_act_on_the_terminal(self):
        hostile = "\x1b[2J\x1b]0;title\x07\u202eevil\nline"
        path = os.path.join(self.folder, "train.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(FORKING_JOB)
        with subprocess.Popen([sys.executable, path, "pt_data_worker", hostile], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
            self.pid = int(job.stdout.readline())
            terminal = self.terminal(columns=200)
            self.top(terminal)
            self.assert_shows(terminal, "trainer", "worker 0", r"\x1b[2J\x1b]0;title\x07\u{202e}evil line")
            terminal.keys("q")
            self.assert_left_as_it_was(terminal, 0)
            done = dlprobe("top", self.pid, "--once")
            self.assertNotIn(b"\x1b", done.stdout)
            job.stdin.close()


if __name__ == "__main__":
    unittest.main()
