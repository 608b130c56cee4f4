"""Loaders that several tests share, healthy ones and not: what pytest runs under the plugin in plugin_test.py."""

import multiprocessing

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

KEPT = []


def persistent():
    return DataLoader(range(32), batch_size=4, num_workers=2, persistent_workers=True)


def workers_after_an_epoch(loader):
    assert len(list(loader)) == 8
    return {child.pid for child in multiprocessing.active_children()}


@pytest.fixture(scope="session")
def loader_of_the_session():
    return persistent()


@pytest.fixture(scope="module")
def loader_of_the_module():
    return persistent()


@pytest.fixture(scope="module", params=["first", "second"])
def loader_with_parameter():
    return persistent()


@pytest.fixture(scope="class")
def folder_of_the_class(tmp_path_factory):
    return tmp_path_factory.mktemp("class")


@pytest.fixture(scope="class")
def loader_that_is_kept():
    KEPT.append(persistent())
    return KEPT[-1]


@pytest.fixture(scope="class")
def loader_that_is_started_and_kept(loader_that_is_kept):
    list(loader_that_is_kept)
    return loader_that_is_kept


@pytest.mark.parametrize("scope", ["session", "module"])
class TestSharedWorkers:
    seen = {}

    def test_first(self, scope, request):
        self.seen[scope] = workers_after_an_epoch(request.getfixturevalue(f"loader_of_the_{scope}"))

    def test_second(self, scope, request):
        again = workers_after_an_epoch(request.getfixturevalue(f"loader_of_the_{scope}"))
        assert self.seen[scope] <= again


class TestParameter:
    def test_first(self, loader_with_parameter):
        workers_after_an_epoch(loader_with_parameter)

    def test_second(self, loader_with_parameter):
        workers_after_an_epoch(loader_with_parameter)


class TestSetupClass:
    @classmethod
    def setup_class(cls):
        cls.loader = persistent()

    @classmethod
    def teardown_class(cls):
        del cls.loader

    def test_first(self):
        workers_after_an_epoch(self.loader)

    def test_second(self):
        workers_after_an_epoch(self.loader)


class TestKeptLoader:
    def test_first(self, loader_that_is_kept):
        workers_after_an_epoch(loader_that_is_kept)

    def test_second(self, loader_that_is_kept):
        workers_after_an_epoch(loader_that_is_kept)


class TestStartedAndKeptLoader:
    def test_first(self, loader_that_is_started_and_kept):
        pass


class TestLeakBesideAFixture:
    def test_first(self, folder_of_the_class):
        KEPT.append(open(__file__, encoding="utf-8"))

    def test_second(self, folder_of_the_class):
        pass


class TestFailureBesideAFixture:
    def test_first(self, loader_that_is_kept):
        workers_after_an_epoch(loader_that_is_kept)
        raise ValueError

    def test_second(self, loader_that_is_kept):
        pass


class TestAllowed:
    """What is allowed is left alone."""

    @pytest.mark.dlprobe(allow=["workers", "descriptors"])
    def test_first(self):
        KEPT.append(persistent())
        workers_after_an_epoch(KEPT[-1])

    def test_second(self):
        assert len(list(KEPT.pop())) == 8


class TestAfterAll:
    def test_leaks_with_tmp_path(self, tmp_path):
        KEPT.append(open(tmp_path / "file", "w", encoding="utf-8"))

    def test_all_others_are_ended(self, loader_of_the_module):
        workers_after_an_epoch(loader_of_the_module)
