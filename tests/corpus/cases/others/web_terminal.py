"""A terminal in the browser, as notebook servers have: the command runs on a pty that closes with the page."""
import argparse
import os
import pty
import select
import signal
import sys
import time


class Terminal:
    def __init__(self, command, ignore_hangup):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            if ignore_hangup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.execv(command[0], command)

    def pump(self, seconds):
        """Sends what is printed to the page for so long. Whether the command still runs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready, _, _ = select.select([self.master], [], [], 0.2)
            if not ready:
                continue
            try:
                text = os.read(self.master, 4096)
            except OSError:
                return False
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
        return True

    def page_closed(self):
        os.close(self.master)

    def code(self):
        _pid, status = os.waitpid(self.pid, 0)
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page-open", type=float, default=4, help="seconds")
    parser.add_argument("--nohup", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), options.script)
    terminal = Terminal([sys.executable, script, *options.arguments], options.nohup)
    if terminal.pump(options.page_open):
        terminal.page_closed()
    sys.exit(terminal.code())


if __name__ == "__main__":
    main()
