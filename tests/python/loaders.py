"""Data loaders that leak, hang and die, and healthy ones: what pytest runs under the plugin in plugin_test.py."""

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import shared_memory

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, Dataset  # noqa: E402

KEPT = []
LOCK = threading.Lock()


class Samples(Dataset):
    """Tensors big enough for shared memory; `at(index)` is called for each."""

    def __init__(self, at=lambda index: None, length=32):
        self.at = at
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.at(index)
        return torch.full((64, 64), float(index))


def epoch(loader):
    return sum(len(batch) for batch in loader)


def die_by(end):
    def at(index):
        if index == 9:
            end()
    return at


def take_lock(_index):
    with LOCK:
        pass


@pytest.fixture(scope="module")
def loader_of_the_module():
    iterator = iter(DataLoader(Samples(length=1 << 20), batch_size=4, num_workers=1))
    next(iterator)
    yield iterator
    del iterator


@pytest.fixture
def loader_of_the_test():
    return DataLoader(Samples(), batch_size=4, num_workers=2, persistent_workers=True)


def test_healthy():
    assert epoch(DataLoader(Samples(), batch_size=4, num_workers=2)) == 32


@pytest.mark.dlprobe(allow="descriptors")  # PyTorch keeps connections to its managers of shared memory
def test_healthy_with_file_system():
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        assert epoch(DataLoader(Samples(), batch_size=4, num_workers=2)) == 32
    finally:
        torch.multiprocessing.set_sharing_strategy(before)


def test_healthy_left_in_the_middle():
    for _ in DataLoader(Samples(), batch_size=4, num_workers=2):
        break


def test_healthy_with_a_fixture(loader_of_the_test):
    assert epoch(loader_of_the_test) == 32


def test_healthy_beside_a_loader_of_the_module(loader_of_the_module):
    assert len(next(loader_of_the_module)) == 4


def test_healthy_pool():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]


def test_healthy_segment():
    segment = shared_memory.SharedMemory(create=True, size=4096)
    segment.close()
    segment.unlink()


def test_healthy_worker_that_is_told_to_end():
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    worker.start()
    worker.terminate()
    worker.join()


def test_keeps_batches():
    KEPT.extend(DataLoader(Samples(), batch_size=4, num_workers=2))


def test_keeps_a_segment():
    segment = shared_memory.SharedMemory(create=True, size=4096)
    print("made", segment.name)
    segment.close()


def test_keeps_workers():
    KEPT.append(iter(DataLoader(Samples(length=1 << 20), batch_size=4, num_workers=2)))
    next(KEPT[-1])


def test_keeps_a_file():
    KEPT.append(open(__file__, encoding="utf-8"))


def test_worker_crashes():
    # OSError and EOFError where it dies while a batch's descriptor is fetched from it, before torch sees the death.
    with pytest.raises((RuntimeError, OSError, EOFError)):
        epoch(DataLoader(Samples(die_by(lambda: os.kill(os.getpid(), signal.SIGKILL))), batch_size=4, num_workers=2))


def test_worker_exits():
    worker = multiprocessing.get_context("fork").Process(target=os._exit, args=(3,))
    worker.start()
    worker.join()


@pytest.mark.dlprobe(deadline=2)
def test_hangs():
    with LOCK:  # which the workers inherit
        epoch(DataLoader(Samples(take_lock), batch_size=4, num_workers=2))


@pytest.mark.dlprobe(deadline=2)
def test_hangs_and_swallows_exceptions():
    with LOCK:
        while True:
            try:
                epoch(DataLoader(Samples(take_lock), batch_size=4, num_workers=2))
            except Exception:
                continue


@pytest.mark.dlprobe(deadline=2)
def test_hangs_without_workers():
    LOCK.acquire()
    try:
        LOCK.acquire()
    finally:
        LOCK.release()


def test_after_all():
    assert epoch(DataLoader(Samples(), batch_size=4, num_workers=2)) == 32
