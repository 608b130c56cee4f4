"""Tests that hang where no Python runs. Each is run by itself."""

import ctypes

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
