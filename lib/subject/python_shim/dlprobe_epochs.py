"""Whether the epochs of a DataLoader differ: the order of PyTorch's own samplers that shuffle, as it follows from the state that
they begin with, which model learns from the batches, and by which pipe the workers of an epoch are known (see dlprobe_data.py).

Nothing is told of loops without gradients. Objects are known by weak references: none is kept alive.
"""
import sys
from itertools import islice

from dlprobe_data import digest, learning_ranks, pipe_of
from dlprobe_hooks import Noticed
from dlprobe_random import attributes_of
from dlprobe_start import load, now, tell
from dlprobe_trace import users_line

_MOST_EPOCHS = 8  # of one loader
_MOST_LOADERS, _MOST_MADE = 16, 64  # places where they are made; objects
_MOST_BATCHES = 16  # within which a loop that learns does so
_FEWEST_BATCHES = 2  # what asks for less wants a batch, and no epoch
_MOST_OF_INDICES = 256
_MOST_PIECES = 4000  # of an attribute of a data set
_MOST_SEED = 1 << 63
_MOST_ATTRIBUTES = 64
_MOST_NODES = 5000  # of a graph
_PLAIN = (int, float, bool, str, type(None))


class _Numbers:
    """A number for each object."""

    def __init__(self):
        self._known, self._last = [], 0

    def of(self, thing, make_mark=None):
        """`make_mark`: by which one that was made anew is known again."""
        for reference, number, _mark in self._known:
            if reference() is thing:
                return number
        mark = make_mark(thing) if make_mark is not None else None
        for _reference, number, known in self._known:
            if mark is not None and mark == known:
                return number
        self._last += 1
        try:
            reference = sys.modules["weakref"].ref(thing)
        except TypeError:  # a list
            reference = bool  # to nothing
        self._known.append((reference, self._last, mark))
        return self._last

    def of_data(self, dataset):
        return self.of(dataset, self._mark_of)

    def _mark_of(self, dataset):
        """What its parts look like."""
        if type(dataset) in (list, tuple):
            return digest(dataset, _MOST_PIECES)
        return "%s %s" % (type(dataset).__qualname__, [
            (name, self._part(value)) for name, value in islice(attributes_of(dataset).items(), _MOST_ATTRIBUTES)])

    def _part(self, value):
        try:
            return digest(value, _MOST_PIECES)
        except Exception:
            return self.of(value)


# ---- orders


def _shuffler_of(loader):
    """The sampler, if it is one of PyTorch's that shuffle, and nothing else changes its order."""
    data = sys.modules["torch.utils.data"]
    sampler = loader._index_sampler
    if type(sampler).__iter__ is data.BatchSampler.__iter__:
        sampler = sampler.sampler
    kinds = data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler, data.distributed.DistributedSampler
    is_one = any(isinstance(sampler, kind) and type(sampler).__iter__ is kind.__iter__ for kind in kinds)
    return sampler if is_one and attributes_of(sampler).get("shuffle", True) else None


def _order_of(sampler):
    """What its next order follows from; and more of that, to be told."""
    parts, fields = attributes_of(sampler), {"type": type(sampler).__name__}
    wanted = [sorted((name, value) for name, value in parts.items() if type(value) in _PLAIN)]
    for name in ("indices", "weights"):
        if name in parts:
            some = parts[name][:_MOST_OF_INDICES]
            wanted.append(list(some) if type(some) is range else some)
    if "generator" in parts:
        generator = parts["generator"]
        fields["path"] = "torch" if generator is None else "generator"
        generator = sys.modules["torch"].default_generator if generator is None else generator
        wanted.append(generator.get_state().numpy().tobytes())
        fields["count"] = generator.initial_seed() if generator.initial_seed() < _MOST_SEED else None
    return digest(wanted), fields


# ---- models


def _as_plain_tensors():
    """Without what their classes make of it."""
    module = sys.modules["torch"]._C
    return (getattr(module, "DisableTorchFunctionSubclass", None) or module.DisableTorchFunction)()  # torch 1.13


def _version_of(parameter):
    """How often it was written to; fused optimizers do not count that."""
    with _as_plain_tensors():
        return parameter._version


def _parameter_of(tensors):
    """One that they were made from: of one model always the same."""
    with _as_plain_tensors():
        nodes = [each.grad_fn for each in tensors]
    for _ in range(_MOST_NODES):
        if not nodes:
            break
        node = nodes.pop()
        if type(node).__name__ == "AccumulateGrad":
            return node.variable
        nodes.extend(each for each, _index in reversed(getattr(node, "next_functions", ())))
    return None


def _is_rank():
    ranks = sys.modules.get("dlprobe_ranks")
    return ranks is not None and bool(ranks.data_parallel)


# ---- epochs


class _Epoch:
    def __init__(self, group, sampler, fields):
        self.group, self._sampler, self.fields = group, id(sampler), fields
        self.iterator, self.batches, self.is_alone = None, 0, True
        self.model, self._parameter, self._version, self._is_written = None, None, 0, False

    def begins(self, iterator):
        """Whether it is the one that `iterator` begins, which may have been at work before."""
        if self.iterator is not None or id(iterator._index_sampler) != self._sampler:
            return False
        self.iterator = sys.modules["weakref"].ref(iterator)
        if hasattr(iterator, "_worker_result_queue"):
            self.fields["loader"] = pipe_of(iterator)
        elif hasattr(iterator, "_dataset_fetcher"):
            self.fields["loader"] = id(iterator._dataset_fetcher)
        return True

    def is_of(self, iterator):
        return self.iterator is not None and self.iterator() is iterator

    def goes_on(self):
        return self.iterator is None or self.iterator() is not None

    def learn(self, parameter, numbers):
        self.model = 0
        if parameter is not None:
            self.model, self._version = numbers.of(parameter), _version_of(parameter)
            self._parameter = sys.modules["weakref"].ref(parameter)

    def go_on(self, batches):
        self.batches = batches
        parameter = self._parameter() if self._parameter is not None else None
        self._is_written |= parameter is not None and _version_of(parameter) != self._version

    def is_known(self):
        return self.batches >= (_FEWEST_BATCHES if self._is_written else _MOST_BATCHES)

    def learner(self):
        return "-" if self.model is None else "%d" % self.model if self._is_written else "%d?" % self.model


class _Hook:
    """On an attribute of a class, while there is something to see."""

    def __init__(self, owner, name, notice):
        self._owner, self._name, self._noticed = owner, name, Noticed(None, notice)

    def set(self, is_wanted):
        member = vars(self._owner)[self._name]
        if is_wanted and member is not self._noticed:
            self._noticed.member = member
            setattr(self._owner, self._name, self._noticed)
        elif not is_wanted and member is self._noticed:
            setattr(self._owner, self._name, self._noticed.member)


class _Starts:
    """Loops that are left early, and for each of which the workers start anew."""

    def __init__(self, iterators):
        self._begun, self._left = {}, {}  # by sampler: the line, when, how long for the first batch; by line: as it is told
        self._batches = _Hook(iterators, "_process_data", self._get_batch)
        iterators._shutdown_workers = Noticed(iterators._shutdown_workers, self._end)

    def begin(self, loader, frame):
        self._begun[id(loader._index_sampler)] = [users_line(frame), now(), None]
        self._batches.set(True)

    def _get_batch(self, iterator, _frame):
        begun = self._begun.get(id(iterator._index_sampler))
        if begun is not None and begun[2] is None:
            begun[2] = (now() - begun[1]) / 1e9
        self._batches.set(any(each[2] is None for each in self._begun.values()))

    def _end(self, iterator, _frame):
        line, _at, waited = self._begun.pop(id(iterator._index_sampler), ({}, 0, None))
        if not line or waited is None or iterator._tasks_outstanding <= 0:
            return
        left = self._left.setdefault((line["file"], line["line"]), dict(line, count=0, different=0, seconds=0.))
        left.update(count=left["count"] + 1, different=left["different"] + iterator._num_yielded, seconds=left["seconds"] + waited)
        if not left["count"] & left["count"] - 1:
            self._tell(left)

    def tell(self):
        for left in self._left.values():
            self._tell(left)

    @staticmethod
    def _tell(left):
        tell("epoch", wanted="left", **left)


class _Epochs:
    def __init__(self, module):
        weak = sys.modules["weakref"].WeakKeyDictionary
        self._places, self._data, self._groups = weak(), weak(), weak()  # of loaders; of iterators
        self._numbers, self._counts, self._made, self._open = _Numbers(), {}, 0, []
        self._last, self._has_learned, self._learns_elsewhere = lambda: None, False, False  # who gave a batch last
        self._starts = _Starts(module._MultiProcessingDataLoaderIter)
        loaders = module.DataLoader
        loaders.__iter__ = Noticed(vars(loaders)["__iter__"], self._begin)
        if hasattr(loaders, "_get_iterator"):  # torch 1.7
            loaders._get_iterator = Noticed(loaders._get_iterator, self._look_for_end)
        self._batches = _Hook(module._BaseDataLoaderIter, "__next__", self._go_on)
        self._backward = _Hook(sys.modules["torch.autograd.variable"].Variable, "_execution_engine", self._learn)
        for each in self._tell_all, self._starts.tell:
            sys.modules["multiprocessing.util"].Finalize(None, each, exitpriority=0)

    def add(self, loader, place):
        self._places[loader] = place

    def _look_for_end(self, loader, _frame):
        """A generator as a sampler serves one epoch."""
        for name in ("batch_sampler", "sampler"):
            sampler = getattr(loader, name, None)
            if type(sampler) is type(_ for _ in ()) and sampler.gi_frame is None:
                tell("epoch", path=name, type=sampler.__qualname__, digests=[], **self._places.get(loader, {}))

    def _begin(self, loader, frame):
        place = self._places.get(loader)
        torch = sys.modules["torch"]
        if place is not None and getattr(loader, "persistent_workers", False):  # torch 1.7
            load("dlprobe_settings").look_at_trainer(loader)
        elif place is not None and loader.num_workers:
            self._starts.begin(loader, frame)
        if place is None or not torch.is_grad_enabled() or torch.utils.data.get_worker_info() is not None:
            return
        if loader not in self._data:
            self._made += 1
            if self._made > _MOST_MADE:
                return
            self._data[loader] = "%d-%s-%d" % (self._numbers.of_data(loader.dataset), loader.batch_size, loader.num_workers)
        group = (place.get("file"), place.get("line"), self._data[loader])
        self._tell_all(group)
        if group not in self._counts and len(self._counts) < _MOST_LOADERS:
            self._counts[group] = 0
        sampler = _shuffler_of(loader)
        if self._counts.get(group, _MOST_EPOCHS) < _MOST_EPOCHS and (sampler is not None or loader.num_workers or _is_rank()):
            order, fields = _order_of(sampler) if sampler is not None else ("-", {})
            self._open.append(_Epoch(group, loader._index_sampler, dict(
                fields, digests=[order, self._data[loader]], workers=learning_ranks(), **place)))
            self._set_hooks()

    def _go_on(self, iterator, _frame):
        self._last = sys.modules["weakref"].ref(iterator)
        epoch = next((each for each in self._open if each.is_of(iterator) or each.begins(iterator)), None)
        if epoch is not None:
            self._groups[iterator] = epoch.group
            epoch.go_on(iterator._num_yielded)
            if epoch.batches and list(self._groups.values()).count(epoch.group) > 1:
                epoch.is_alone = False
            if epoch.is_known():
                self._tell(epoch)
        self._set_hooks()

    def _learn(self, _engine, frame):
        tensors = frame.f_locals.get("t_outputs", frame.f_locals.get("tensors"))
        if tensors is None or any(type(each).__module__.startswith("torch._") for each in tensors):
            return  # torch.compile traces a graph
        self._has_learned, iterator = True, self._last()
        self._learns_elsewhere |= iterator is None
        for epoch in self._open:
            if epoch.model is None and iterator is not None and epoch.is_of(iterator):
                epoch.learn(_parameter_of(tensors), self._numbers)
                epoch.fields["different"] = iterator._num_yielded
        self._set_hooks()

    def _set_hooks(self):
        self._open = [each for each in self._open if each.goes_on() or each.batches >= _FEWEST_BATCHES]
        self._batches.set(any(each.goes_on() for each in self._open))
        self._backward.set(not self._has_learned or any(each.model is None and each.goes_on() for each in self._open))

    def _tell(self, epoch):
        self._open.remove(epoch)
        is_learning = epoch.model is not None or not self._learns_elsewhere
        if epoch.batches >= _FEWEST_BATCHES and epoch.is_alone and is_learning:
            self._counts[epoch.group] += 1
            epoch.fields["digests"].append(epoch.learner())
            tell("epoch", **epoch.fields)

    def _tell_all(self, group=None):
        for epoch in list(self._open):
            if group in (None, epoch.group):
                self._tell(epoch)


_epochs = []


def watch(module, loader, place):
    """`loader` of that module was made there."""
    if not _epochs:
        _epochs.append(_Epochs(module))
    _epochs[0].add(loader, place)
