"""The process that waits for the deadline of a test, looks at it then, and ends what does not go on.

It is a process and no thread: a thread would be one more that could wake the others, as dlprobe sees it, and could
not run while another holds the GIL. It is no child of what it watches, either. It ends with that, at the latest.

usage: hang_watcher.py SOCKET FILE PID WAKE END PROGRAM [WHY-NOT]
       (descriptors of the socket to the tests' process and of the file for what is seen; that process; the signals that
       let it raise the failure, and that end it; dlprobe, or why there is none)
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional

# It is started as a script: this folder, and not its parent, is on the path.
from processes import command_of, descendants, process_of  # type: ignore[import-not-found]

_LOOK_SECONDS = 60.0
# How long until the failure is raised, until the test is left by it, and until it is left once its processes are gone.
_WAKE_SECONDS = 1.0
_LEAVE_SECONDS = 2.0
_GRACE_SECONDS = 20.0
_END_SECONDS = 2.0
_TICK_SECONDS = 1.0
# How multiprocessing starts what lives on by design.
_HELPERS = ("from multiprocessing.resource_tracker import", "from multiprocessing.forkserver import")


class Watcher:
    """Does as it is told by the last order, see hang_watch.py."""

    def __init__(self, words: List[str]) -> None:
        self._socket = socket.socket(fileno=int(words[0]))
        self._file = int(words[1])
        self._target = process_of(int(words[2])) or sys.exit(0)
        self._wake, self._end = int(words[3]), int(words[4])
        self._program = words[5]
        self._why_not = words[6] if len(words) > 6 else ""
        self._order: Dict[str, Any] = {"phase": 0, "deadline": None}
        self._woken = 0

    def run(self) -> None:
        """Ends by SystemExit."""
        while True:
            order = self._order
            deadline = order["deadline"]
            left = None if deadline is None else deadline - time.monotonic()
            if self._wait(lambda: self._order is not order, left):  # pylint: disable=cell-var-from-loop
                continue
            self._end_the_hang(order)
            order["deadline"] = None

    def _end_the_hang(self, order: Dict[str, Any]) -> None:
        seen = self._look(order)
        if self._order is not order:
            return
        text = f"dlprobe: the test was not done after {order['seconds']:g} s\n{seen}"
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, text.encode(), 0)
        except OSError:
            _say(text)  # no room for it
        self._send({"hang": order["phase"]})
        # First the failure, then the end of the workers: their end raises failures of its own. Only what the test
        # cannot leave by itself, since it waits for them, is done here.
        is_woken = order["wake"] and self._raise_the_failure(order)
        if self._order is not order:
            return
        if not is_woken:
            _say(f"\n{order['test']}\n{text}")
        if is_woken and self._wait(lambda: self._order is not order, _LEAVE_SECONDS):
            return
        self._end_processes(order)
        if not self._wait(lambda: self._order is not order, _GRACE_SECONDS):
            _say(f"\n{order['test']}\n{text if is_woken else ''}\n"
                 "It waits outside of Python, and cannot be ended: pytest ends here.\n")
            self._end_the_target()

    def _raise_the_failure(self, order: Dict[str, Any]) -> bool:
        self._signal(self._wake)
        self._wait(lambda: self._woken == order["phase"] or self._order is not order, _WAKE_SECONDS)
        return bool(self._woken == order["phase"])

    def _look(self, order: Dict[str, Any]) -> str:
        # What dlprobe says of that process and its tree, as a person reads it.
        if not self._program:
            return f"and why, cannot be said: {self._why_not}\n"
        try:
            child = subprocess.Popen([self._program, "attach", str(self._target[0])], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            return f"and why, cannot be said: {error}\n"
        assert child.stdout is not None
        output = child.stdout.fileno()
        parts = [b"?"]

        def is_done() -> bool:
            if _ready([output], 0):
                parts.append(os.read(output, 1 << 16))
            return not parts[-1] or self._order is not order

        try:
            is_in_time = self._wait(is_done, _LOOK_SECONDS, output)
        finally:
            child.kill()
            child.stdout.close()
            child.wait()
        seen = b"".join(parts[1:]).decode("utf-8", "replace")
        return seen if is_in_time else f"{seen}\nand why, cannot be said: dlprobe was not done after {_LOOK_SECONDS:g} s\n"

    def _end_processes(self, order: Dict[str, Any]) -> None:
        own = process_of(os.getpid())
        left = descendants(self._target[0], {own} if own else set()) - {tuple(process) for process in order["keep"]}
        pids = [pid for pid, _ in left if not any(helper in command_of(pid) for helper in _HELPERS)]
        self._send({"ended": pids})
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue

    def _end_the_target(self) -> None:
        # As process 1 of a container it cannot be killed, but it has a handler for this one.
        for number in (self._end, signal.SIGKILL):
            self._signal(number)
            self._wait(lambda: False, _END_SECONDS)
        sys.exit(0)

    def _signal(self, number: int) -> None:
        if process_of(self._target[0]) != self._target:
            sys.exit(0)
        os.kill(self._target[0], number)

    def _wait(self, is_done: Callable[[], bool], seconds: Optional[float], *descriptors: int) -> bool:
        # Whether that came to be in time.
        end = None if seconds is None else time.monotonic() + seconds
        while not is_done():
            left = _TICK_SECONDS if end is None else min(end - time.monotonic(), _TICK_SECONDS)
            if left <= 0:
                return False
            ready = _ready([self._socket.fileno(), *descriptors], left)
            if self._socket.fileno() in ready:
                self._receive()
            elif not ready and process_of(self._target[0]) != self._target:
                sys.exit(0)  # its forked children may have the socket, so that this is not told by its end
        return True

    def _receive(self) -> None:
        try:
            packet = self._socket.recv(1 << 20)
        except ConnectionError:
            packet = b""
        if not packet:
            sys.exit(0)
        message = json.loads(packet)
        if "woken" in message:
            self._woken = message["woken"]
        else:
            self._order = message

    def _send(self, message: Dict[str, Any]) -> None:
        try:
            self._socket.send(json.dumps(message).encode(), socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass  # it hangs: it is told by the signal, or ended
        except OSError:
            sys.exit(0)


def _ready(descriptors: List[int], seconds: float) -> List[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(1, seconds * 1000) if seconds else 0)]


def _say(text: str) -> None:
    rest = text.encode("utf-8", "replace")
    try:
        while rest:
            rest = rest[os.write(2, rest):]
    except OSError:
        return  # nobody reads it


def main() -> None:
    """Leaves the tree of what it watches, and says as which process."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.write(1, f"{os.getpid()}\n".encode())
    os.dup2(0, 1)
    Watcher(sys.argv[1:]).run()


if __name__ == "__main__":
    main()
