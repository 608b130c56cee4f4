"""Trees of processes for kill_test.py: one that shows every disturbance, and any number to be killed.

usage: kill_target.py watched BOARD     a trainer, two workers; ends at the end of its input
       kill_target.py many              forks a small tree for each line of input; ends with it

`watched` writes to BOARD, a file of SLOTS times three 64-bit numbers, (tid, turns, came_back), one slot for each
thread: threads that run count their turns; a thread in a call that must not return leaves 1 + errno if that call
comes back. When all
are there it prints "pids TRAINER WORKER WORKER".

`many` answers each line with "TRAINER WORKER WORKER", and reaps whatever has ended when the next line comes.
"""

import ctypes
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

SLOTS = 32
SLOT = struct.Struct("qqq")
# Slots: 0 the main thread, 1 and 2 those that count, then a worker's main thread and those behind it.
FIRST_WORKER, SECOND_WORKER, FIRST_CALL = 4, 8, 12
COUNTING = (1, 2, FIRST_WORKER + 2)
FOR_EVER_S = 10 ** 6

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class Board:
    def __init__(self, path):
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SLOTS * SLOT.size)

    def get(self, slot):
        return SLOT.unpack_from(self.memory, slot * SLOT.size)

    def put(self, slot, turns=0, came_back=0):
        SLOT.pack_into(self.memory, slot * SLOT.size, threading.get_native_id(), turns, came_back)

    def counts(self, slot, busy=None):
        """Runs for ever; with `busy`, for bursts of so many turns with a short sleep behind each."""
        turns = 0
        while True:
            turns += 1
            self.put(slot, turns=turns)
            if busy and turns % busy == 0:
                time.sleep(0.002)

    def blocks(self, slot, call):
        """In a call that returns only if something has disturbed it. Python would try again after EINTR: `call` is
        the C library's own."""
        ctypes.set_errno(0)
        call()
        self.put(slot, came_back=1 + ctypes.get_errno())


def semaphore():
    made = ctypes.create_string_buffer(32)  # sem_t
    LIBC.sem_init(made, 0, 0)
    return made


def mutex_of_another():
    """A pthread mutex that another thread keeps."""
    made, taken = ctypes.create_string_buffer(40), threading.Event()  # pthread_mutex_t, all zero

    def keep():
        LIBC.pthread_mutex_lock(made)
        taken.set()
        LIBC.sem_wait(semaphore())

    threading.Thread(target=keep, daemon=True).start()
    taken.wait()
    return made


def poll_nothing():
    class PollFd(ctypes.Structure):
        _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]
    LIBC.poll(ctypes.byref(PollFd(os.pipe()[0], select.POLLIN, 0)), 1, -1)


def calls_of_trainer(child):
    """Each would come back with EINTR, or with what it waits for, if it was stopped in a wrong way. Not epoll_wait,
    sigtimedwait and the others of signal(7) that the kernel ends after any stop."""
    pair, buffer = socket.socketpair(), ctypes.create_string_buffer(8)
    never, held = semaphore(), mutex_of_another()
    span, later = Timespec(FOR_EVER_S, 0), Timespec(int(time.time()) + FOR_EVER_S, 0)
    return [
        lambda: LIBC.sem_wait(never),
        lambda: LIBC.sem_timedwait(never, ctypes.byref(later)),
        lambda: LIBC.nanosleep(ctypes.byref(span), None),
        poll_nothing,
        lambda: LIBC.recv(pair[0].fileno(), buffer, 8, 0),
        lambda: LIBC.pthread_mutex_lock(held),
        # Told of it if somebody else stops its child, too.
        lambda: LIBC.waitpid(child, None, os.WUNTRACED | os.WCONTINUED),
        threading.Semaphore(0).acquire,
    ]


def start(work, *arguments):
    threading.Thread(target=work, args=arguments, daemon=True).start()


def wait_for_input(board, slot, file):
    buffer = ctypes.create_string_buffer(8)
    board.blocks(slot, lambda: LIBC.read(file, buffer, 8))
    os._exit(0)


def watched_worker(board, slot, lifeline, ready):
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(lifeline[1])
    start(board.blocks, slot + 1, lambda never=semaphore(): LIBC.sem_wait(never))
    if slot == FIRST_WORKER:
        start(board.counts, slot + 2, 200)
    os.write(ready, b".")
    wait_for_input(board, slot, lifeline[0])


def watched(path):
    board, lifeline, ready = Board(path), os.pipe(), os.pipe()
    workers = []
    for slot in (FIRST_WORKER, SECOND_WORKER):
        workers.append(os.fork())
        if workers[-1] == 0:
            watched_worker(board, slot, lifeline, ready[1])
    for _ in workers:
        os.read(ready[0], 1)
    for slot in (1, 2):  # one has the GIL, the other wants it
        start(board.counts, slot)
    for number, call in enumerate(calls_of_trainer(workers[0])):
        start(board.blocks, FIRST_CALL + number, call)
    print("pids", os.getpid(), *workers, flush=True)
    wait_for_input(board, 0, 0)


def end_with_input():
    """Without taking anything from it: the input of `many` is everybody's."""
    hang_up = select.poll()
    hang_up.register(0, 0)
    hang_up.poll()
    os._exit(0)


def small_worker(number, tasks):
    """Waits for a task. One ends with the trainer, the other stays behind."""
    if number == 0:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    start(end_with_input)
    os.read(tasks, 1)


def small_trainer(answer):
    tasks = os.pipe()
    pids = []
    for number in range(2):
        pid = os.fork()
        if pid == 0:
            small_worker(number, tasks[0])
        pids.append(pid)
    start(end_with_input)
    os.write(answer, f"{os.getpid()} {pids[0]} {pids[1]}\n".encode())
    while True:  # runs, waits, runs
        sum(range(3000))
        time.sleep(0.001)


def many():
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    answer = os.dup(1)
    for _ in sys.stdin:
        if os.fork() == 0:
            small_trainer(answer)
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    if sys.argv[1] == "watched":
        watched(sys.argv[2])
    else:
        many()
