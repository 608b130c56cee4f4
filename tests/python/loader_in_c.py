"""Tests that hang where no Python runs, and what is not to be seen of the plugin. Each is run by itself."""

import ctypes
import fcntl
import os
import signal
import threading

import pytest


def lock_twice(library):
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        library.pthread_mutex_lock(mutex)


@pytest.mark.dlprobe(deadline=1)
def test_hangs_in_c():
    lock_twice(ctypes.CDLL(None))


@pytest.mark.dlprobe(deadline=1)
def test_hangs_with_the_gil():
    lock_twice(ctypes.PyDLL(None))


@pytest.mark.dlprobe(deadline=1)
def test_sleeps_with_the_gil():
    ctypes.PyDLL(None).sleep(3600)


@pytest.mark.dlprobe
def test_returns_from_c():
    ctypes.PyDLL(None).getpid()


@pytest.mark.dlprobe
def test_is_alone():
    assert threading.active_count() == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.dlprobe
def test_is_killed():
    """Leaves a child that has all its descriptors but those of the terminal, until it gets a lock."""
    if os.fork() == 0:
        os.closerange(0, 3)
        with open(os.environ["LOCKED_FILE"], "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
