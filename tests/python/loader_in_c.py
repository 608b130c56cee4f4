"""A test that hangs where no Python runs: nothing can end it but the end of the process."""

import ctypes

import pytest


@pytest.mark.dlprobe(deadline=1)
def test_hangs_in_c():
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
