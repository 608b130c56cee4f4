"""Notices tests that hang, through a process of its own: hang_watcher.py."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Iterable, Optional, Set

from .processes import Process, process_of
from .program import DlprobeError, find_program

# Some that nobody else uses. The first one's handler raises in the main thread, whatever that waits for; the second
# one's is _exit itself, which needs neither Python nor its lock.
_WAKE: int = signal.SIGRTMAX - 3
_END: int = signal.SIGRTMAX - 4
_ENDING_SECONDS = 5.0


class HangWatch:
    """One for a session; its process is started at the first test that needs it.

    Messages are packets of JSON. To the process: an order {phase, deadline, seconds, wake, test, keep}, the last of
    which counts, and {woken: phase}. From it: {hang: phase}, with the text in the file, and {ended: pids}.
    """

    def __init__(self, fail: Callable[[str], None]) -> None:
        self.hang: Optional[str] = None
        """What was seen when the test that runs was not done in time."""
        self.is_told = False
        """Whether that was raised in it."""
        self.ended: Set[int] = set()
        """Processes of the test that were ended, so that it goes on."""
        self._fail = fail
        self._order: Dict[str, Any] = {"phase": 0, "deadline": None}
        self._may_raise = False
        self._owner = 0
        self._socket: Optional[socket.socket] = None
        self._file: Any = None
        self._old_handler: Any = None

    def start(self) -> Optional[Process]:
        """Starts the process if there is none. To be called where stderr is that of the terminal."""
        if self._owner == os.getpid() and self._receive():
            return None
        self._close()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._file = tempfile.TemporaryFile()
        try:
            program = [os.path.abspath(find_program())]
        except DlprobeError as error:
            program = ["", str(error)]
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hang_watcher.py")
        done = subprocess.run(
            [sys.executable, "-E", "-S", "-B", script, str(theirs.fileno()), str(self._file.fileno()), str(os.getpid()),
             str(_WAKE), str(_END), *program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, pass_fds=[theirs.fileno(), self._file.fileno()])
        theirs.close()
        self._owner = os.getpid()
        pid = int(done.stdout)
        _let_be_traced_by(pid)
        if threading.current_thread() is threading.main_thread() and self._old_handler is None:
            self._old_handler = signal.signal(_WAKE, self._raise)
            libc = ctypes.CDLL(None)
            libc.signal(_END, libc._exit)
        return process_of(pid)

    def begin(self, test: str, seconds: float, keep: Iterable[Process]) -> None:
        """A test begins; `keep` are the processes that are none of its."""
        self.hang = None
        self.is_told = False
        self.ended = set()
        is_main = threading.current_thread() is threading.main_thread()
        self._order.update(test=test, seconds=seconds, keep=sorted(keep), wake=is_main and self._old_handler is not None)

    def enter(self, in_test: bool, is_timed: bool = True) -> None:
        """The test's own code (its fixtures', too) begins or ends: there, and not in pytest around it, a failure can
        be raised. The deadline begins anew."""
        deadline = time.monotonic() + self._order["seconds"] if is_timed else None
        self._order.update(phase=self._order["phase"] + 1, deadline=deadline)
        self._may_raise = in_test
        self._send(self._order)

    def leave(self) -> None:
        """The test is done."""
        self._may_raise = False
        self._order.update(phase=self._order["phase"] + 1, deadline=None)
        self._send(self._order)

    def look(self) -> None:
        """Takes note of what the process has said."""
        self._receive()

    def end(self) -> None:
        """Ends the process, and waits for that: after it there is nobody who could send the signals."""
        if self._socket is None or self._owner != os.getpid():
            return
        has_ended = False
        try:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_ENDING_SECONDS)
            while self._socket.recv(1 << 16):
                pass
            has_ended = True
        except OSError as error:
            has_ended = not isinstance(error, socket.timeout)
        self._close()
        _let_be_traced_by(0)
        if has_ended and self._old_handler is not None:
            signal.signal(_WAKE, self._old_handler)
            signal.signal(_END, signal.SIG_DFL)
            self._old_handler = None

    def _raise(self, *_: Any) -> None:
        __tracebackhide__ = True
        self._receive()
        if self._may_raise and self.hang and not self.is_told:
            self.is_told = True
            self._send({"woken": self._order["phase"]})
            self._fail(self.hang)

    def _receive(self) -> bool:
        # Whether the process is there.
        while self._socket is not None:
            try:
                packet = self._socket.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not packet:
                return False
            message = json.loads(packet)
            self.ended.update(message.get("ended", ()))
            if message.get("hang") == self._order["phase"]:
                size = os.fstat(self._file.fileno()).st_size
                text = os.pread(self._file.fileno(), size, 0).decode("utf-8", "replace")
                self.hang = text or "dlprobe: the test was not done in time; there was no room for what was seen"
        return False

    def _send(self, message: Dict[str, Any]) -> None:
        try:
            if self._socket is not None:
                self._socket.send(json.dumps(message).encode())
        except OSError:
            return  # somebody has killed it: the next test starts another

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._file.close()
            self._socket = None


def _let_be_traced_by(pid: int) -> None:
    # Yama (ptrace_scope 1) lets a process be looked at by its parents alone, and by whom it names.
    pr_set_ptracer = 0x59616D61
    ctypes.CDLL(None).prctl(pr_set_ptracer, ctypes.c_ulong(pid), 0, 0, 0)
