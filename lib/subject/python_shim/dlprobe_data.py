"""What the workers of a DataLoader do alike, though each is to do a part: draw the same numbers from copies of a generator, and
read the same samples of an IterableDataset; and whether they move a file's position for each other (see dlprobe_start.py).

Loaded where a DataLoader has workers, at work in a worker alone. An attribute of PyTorch's fetcher tells when it is looked up, for
the first samples: no frame of ours stands in a traceback. No method of the program's own is called.
"""
import os
import sys
from itertools import islice

from dlprobe_files import Positions, has_lock, open_kinds, unlocked_files_of
from dlprobe_hooks import Noticed, call_before
from dlprobe_random import Draws, Unknown, attributes_of, items, seeded_otherwise, things_in, watched_generators
from dlprobe_start import load, tell
from dlprobe_trace import Trace, entries_of, place_of_code, users_line, users_place

_MOST_WORKERS = 128  # that one process starts: what is wrong is wrong from the start
_STEPS, _MOST_SAMPLES = (4, 16, 64), 500
_MOST_DIGESTS = 200  # in one word
_MOST_KEPT, _FEWEST_KEPT = 100, 8  # samples of a buffer that are looked for, and found
_MOST_PIECES = 500  # of such a sample
_MOST_OF_NUMBERS = 16  # characters
_MOST_BYTES = 1 << 16  # of a text
_MOST_ELEMENTS = 4096  # of an array
_MOST_CALLS_SEEN = 1000  # of one worker, that read from sockets


class _Watched:
    """An attribute of the fetchers of a class, which calls each of `notices` as long as that says true."""

    def __init__(self, owner, name, *notices):
        self._owner, self._name, self.notices = owner, name, notices
        setattr(owner, name, self)

    def __set__(self, fetcher, value):
        fetcher.__dict__[self._name] = value

    def __get__(self, fetcher, owner=None):
        if fetcher is None or self._name not in fetcher.__dict__:
            raise AttributeError(self._name)
        for notice in self.notices:
            is_wanted = False
            try:
                is_wanted = notice(fetcher, sys._getframe(1))
            except Exception as error:
                if users_place(entries_of(error)):
                    raise  # by the handler of a signal that came meanwhile
            finally:
                if not is_wanted:
                    self.notices = tuple(each for each in self.notices if each is not notice)
        if not self.notices and vars(self._owner).get(self._name) is self:
            delattr(self._owner, self._name)
        return fetcher.__dict__[self._name]


def _is_of_worker(frame):
    """Whether the worker itself fetches there, and no loader within the data set."""
    return frame.f_back.f_code is _worker_loop().__code__


def place_of(dataset, method):
    """Where the program's own data set, which others may wrap, makes a sample."""
    for _ in range(8):
        for owner in type(dataset).__mro__:
            place = place_of_code(getattr(vars(owner).get(method), "__code__", None), "%s.%s" % (owner.__qualname__, method))
            if place:
                return place
        dataset = attributes_of(dataset).get("dataset")
    return {}


# ---- samples


def _thinned(array, count_of):
    """A part of a large array, of all over it."""
    while count_of(array) > _MOST_ELEMENTS:
        longest = max(range(len(array.shape)), key=lambda index: array.shape[index])
        array = array[(slice(None),) * longest + (slice(None, None, 2),)]
    return array


def _bytes_of(value, depth=0):
    """What makes a sample this one, in pieces."""
    kind = type(value)
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if depth > 6:
        raise Unknown
    if kind in (int, float, complex, bool, type(None)):
        yield repr(value).encode()
    elif kind in (str, bytes, bytearray):
        yield b"%d" % len(value)
        yield value[:_MOST_BYTES].encode("utf-8", "surrogatepass") if kind is str else value[:_MOST_BYTES]
    elif issubclass(kind, dict):
        yield from _bytes_of([*dict.keys(value), *dict.values(value)], depth)
    elif issubclass(kind, (list, tuple)):
        for count, each in enumerate(items(value)):
            yield b","
            if count < _MOST_ELEMENTS:
                yield from _bytes_of(each, depth + 1)
    elif kind is torch.Tensor and value.layout == torch.strided and value.device.type == "cpu":
        yield repr((value.dtype, tuple(value.shape))).encode()
        part = _thinned(value.detach(), lambda array: array.numel()).clone(memory_format=torch.contiguous_format)
        yield part.reshape(-1).view(torch.uint8).numpy().tobytes()
    elif numpy is not None and (kind is numpy.ndarray or issubclass(kind, numpy.generic)) and not value.dtype.hasobject:
        yield repr((value.dtype.str, value.shape)).encode()
        yield _thinned(value, lambda array: array.size).tobytes()
    else:
        raise Unknown


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()  # torch 2.0


def version_of(tensor):
    """How often it was written to; those of inference mode do not count that."""
    try:
        return tensor._version
    except RuntimeError:
        return 0


def digest(sample, most=None):  # of its pieces
    total = 0
    for piece in islice(_bytes_of(sample), most):
        total = sys.modules["zlib"].crc32(piece, total)
    return "%08x" % total


def end_by(error):
    """"end": it came out of the generator by which a data set iterates, and that has no more, then."""
    try:
        fetch = Trace(error).frame_of("torch/utils/data/_utils/fetch.py", "fetch")
        data = vars(fetch.f_locals["self"]).get("dataset_iter") if fetch is not None else None
        return "end" if type(data) is type(_ for _ in ()) and data.gi_frame is None else None
    except Exception:
        return None  # the error itself is told, at least


def _samples_of(fetcher, frame, most):
    data = frame.f_locals["data"]
    return islice(data, most) if vars(fetcher)["auto_collation"] else [data]


class _Buffer:
    """The list from which a generator of the program gives the samples of a stream: does it give them in another order, which it
    draws?"""

    def __init__(self, iterator):
        longest, things = [], []
        while type(iterator) is type(_ for _ in ()) and iterator.gi_frame is not None:
            for name, value in list(iterator.gi_frame.f_locals.items()):
                things.append((name, value))
                things.extend(("%s.%s" % (name, each), part) for each, part in list(attributes_of(value).items()))
                longest = value if type(value) is list and len(value) > len(longest) else longest
            iterator = iterator.gi_yieldfrom
        try:
            self._kept = [digest(each, _MOST_PIECES) for each in islice(longest, _MOST_KEPT)]
        except Unknown:
            self._kept = []
        self._generators = watched_generators(things, [("random", sys.modules["random"]._inst)]) if self._kept else []
        self._places = []

    def shuffled_by(self, seen):
        """The generator that was drawn from meanwhile; None: they come in order, or from elsewhere."""
        self._places += [self._kept.index(each) for each in seen if each in self._kept]
        for each in self._generators:
            each.look()
        is_in_order = self._places in (sorted(self._places), sorted(self._places, reverse=True))
        if len(self._places) < _FEWEST_KEPT or is_in_order:
            return None
        return next((each for each in self._generators if each.moves), None)


class _Samples:
    """Before a batch is put together: which samples has the worker read? Told are the lowest checksums of all, by which workers
    that read some in common find these; those of the order of the first ones; and whether the data set came to its end."""

    def __init__(self, fields):
        self._fields, self._seen, self._count, self._told, self._fetcher = fields, set(), 0, 0, None
        self._order, self._orders, self._buffer = 0, [], None

    def __call__(self, fetcher, frame):
        if not _is_of_worker(frame):
            return True
        if self._fetcher is None:
            self._fetcher = sys.modules["weakref"].ref(fetcher)
        elif self._fetcher() is not fetcher:  # the next epoch shares out the data anew
            self.tell()
            return False
        before = self._count
        digests = [digest(sample) for sample in _samples_of(fetcher, frame, _MOST_SAMPLES - before)]
        self._look_for_order(fetcher, digests)
        for seen in digests:
            self._seen.add(seen)
            self._count += 1
            self._order = sys.modules["zlib"].crc32(seen.encode(), self._order)
            if self._count in _STEPS:
                self._orders.append("%08x" % self._order)
        if any(before < step <= self._count for step in _STEPS):  # it may be killed
            self.tell()
        return self._count < _MOST_SAMPLES

    def _look_for_order(self, fetcher, digests):
        try:
            if self._buffer is None:
                self._buffer = _Buffer(vars(fetcher)["dataset_iter"])
            elif self._buffer:
                by = self._buffer.shuffled_by(digests)
                if by is not None:
                    self._fields.update(type=by.kind.name, message=by.digest()[:_MOST_OF_NUMBERS])
                if by is not None or self._count >= _STEPS[-1]:
                    self._buffer = False
        except Exception:
            self._buffer = False  # what is read otherwise goes on

    def tell(self):
        if self._count > self._told:
            self._told = self._count
            tell("samples", digests=sorted(self._seen)[:_MOST_DIGESTS], count=self._count, different=len(self._seen),
                 chain=self._orders, **self._fields)

    def end(self, *_):
        """The worker is about to say that its data set has no more."""
        if sys._getframe(2).f_code is _worker_loop().__code__ and self._fetcher is not None and self._fetcher() is not None:
            self._told, self._fields["wanted"] = 0, "end"
            self.tell()


class _Missing:
    """How many samples of a map-style data set are None."""

    def __init__(self, fields):
        self._fields, self._count, self._missing, self._is_told = fields, 0, 0, False

    def __call__(self, fetcher, frame):
        if not _is_of_worker(frame):
            return True
        samples, before = frame.f_locals["data"], self._count
        if type(samples) is not list:
            return False
        self._count += len(samples)
        self._missing += sum(each is None for each in samples)
        if any(before < step <= self._count for step in _STEPS) and (self._is_told or 2 * self._missing >= self._count):
            self._is_told = True
            tell("samples", digests=[], count=self._count, different=self._count - self._missing, **self._fields)
        return self._count < _STEPS[-1]


class _RankSamples:
    """The first that a rank reads to learn from. What is evaluated is often the same in all ranks: that is in no shuffled order."""

    def __init__(self, fields, caller, is_map):
        self._fields, self._caller, self._is_map, self._fetcher = fields, caller, is_map, None
        self._digests, self._indices = [], []

    def __call__(self, fetcher, frame):
        if frame.f_back.f_code is not self._caller:
            return True
        if self._fetcher is None:
            self._fetcher = sys.modules["weakref"].ref(fetcher)
            self._fields.setdefault("loader", id(fetcher))
        elif self._fetcher() is not fetcher:
            return False
        before, most = len(self._digests), _STEPS[1]
        indices = frame.f_locals["possibly_batched_index"]
        self._indices.extend(indices if type(indices) is list else [indices])
        if self._is_map and any(type(index) is not int for index in self._indices):
            return False
        self._digests.extend(digest(sample) for sample in _samples_of(fetcher, frame, most - before))
        count = len(self._digests)
        if any(before < step <= count for step in _STEPS[:2]):
            tell("rank-samples", digests=self._digests, count=self._order(), **self._fields)
        return count < most

    def _order(self):
        """2: that of a stream; 1: that of the data set; 0: another one."""
        return int(self._indices == sorted(self._indices)) if self._is_map else 2


def pipe_of(iterator):
    """By which dlprobe knows a DataLoader's iterator with workers: they send their batches by it."""
    return os.fstat(iterator._worker_result_queue._reader.fileno()).st_ino


def learning_ranks():
    """How many there are in this rank's job, whose ranks are alike: groups within it may be of ranks that are to have the same data."""
    torch, ranks = sys.modules["torch"], sys.modules.get("torch.distributed.distributed_c10d")
    if ranks is None or not ranks.is_initialized() or ranks.get_world_size() < 2 or not torch.is_grad_enabled() \
            or not load("dlprobe_ranks").data_parallel:
        return None
    groups = ranks._world.pg_map if hasattr(ranks, "_world") else ranks._pg_map  # torch 2.0
    return ranks.get_world_size() if len(groups) == 1 else None


# ---- files


class _LoaderPositions(Positions):
    """Between two fetches a worker reads no file."""

    def __init__(self, fields, numbers):
        super().__init__(fields, numbers)
        self._is_fetching = False

    def begin(self, _fetcher, frame):
        return not _is_of_worker(frame) or self._look_while(True)

    def end(self, _fetcher, frame):
        return not _is_of_worker(frame) or self._look_while(False)

    def _look_while(self, is_fetching):
        was_fetching, self._is_fetching = self._is_fetching, is_fetching
        # It asks for its next batch by reading, too.
        return self.look(lambda moved: (moved or not was_fetching) and self.reads.went_on() and was_fetching)


# ---- connections


class _Connections:
    """The TCP connections of before the fork: does this worker read answers from one?"""

    def __init__(self, fields, numbers):
        as_of_parent = load("dlprobe_limits").as_of_parent
        self._fields, self._calls, self._members = fields, 0, []
        self._targets = {number: target for number, target in ((each, as_of_parent(each)) for each in numbers) if target}
        if self._targets:
            self._hook()

    def _hook(self):
        for module, kind in (("socket", "socket"), ("ssl", "SSLSocket")):
            owner = getattr(sys.modules.get(module), kind, None)
            for name in ("recv", "recv_into") if owner is not None else ():
                self._members.append((owner, name, vars(owner).get(name)))
                setattr(owner, name, Noticed(getattr(owner, name), self._notice))

    def _unhook(self):
        for owner, name, member in self._members:
            if member is None:
                delattr(owner, name)
            else:
                setattr(owner, name, member)
        self._members = []

    def _notice(self, sock, frame):
        number, self._calls = sock.fileno(), self._calls + 1
        target = self._targets.get(number)
        is_of_parent = target is not None and target == os.readlink("/proc/self/fd/%d" % number)
        if is_of_parent and sock.family.name.startswith("AF_INET") and sock.type.name == "SOCK_STREAM":
            tell("connection-read", path=target, shared="%s:%d" % sock.getpeername()[:2], **dict(self._fields, **users_line(frame)))
        elif self._calls < _MOST_CALLS_SEEN:
            return
        self._unhook()


# ---- in a worker

_is_watched = _is_trainer_watched = False


def _worker_loop():
    return sys.modules["torch.utils.data._utils.worker"]._worker_loop


def _watch(owner, name, *notices):
    """That attribute is looked up at the begin of a fetch, for each sample, or at its end."""
    notices = tuple(filter(None, notices))
    if notices:
        _Watched(owner, name, *getattr(vars(owner).get(name), "notices", ()) + notices)


def _watch_samples_of_rank(fields, caller, is_map):
    _watch(_class_of_fetcher(is_map), "collate_fn", _RankSamples(fields, caller, is_map))


def _class_of_fetcher(is_map):
    fetch = sys.modules["torch.utils.data._utils.fetch"]
    return fetch._MapDatasetFetcher if is_map else fetch._IterableDatasetFetcher


def is_map_style(kind):
    return kind == sys.modules["torch.utils.data.dataloader"]._DatasetKind.Map


def place_of_samples(dataset, is_map):
    return place_of(dataset, "__getitem__" if is_map else "__iter__")


def watch_trainer(frame):
    """`frame`: of an iterator without workers, where it asks for its fetcher."""
    global _is_trainer_watched
    loader = sys.modules["torch.utils.data.dataloader"]._SingleProcessDataLoaderIter
    iterator = frame.f_locals["self"]
    if not _is_trainer_watched and frame.f_code is loader.__init__.__code__ and learning_ranks():
        _is_trainer_watched, is_map = True, is_map_style(iterator._dataset_kind)
        _watch_samples_of_rank(place_of_samples(iterator._dataset, is_map), loader._next_data.__code__, is_map)


def watch_worker(frame):
    """`frame`: of PyTorch's worker loop, where it asks for its fetcher."""
    global _is_watched
    process = sys.modules["multiprocessing.process"].current_process()
    is_late = process._identity and process._identity[-1] > _MOST_WORKERS
    if is_late or frame.f_code is not _worker_loop().__code__:
        return
    here = frame.f_locals
    fields = {"loader": os.fstat(here["data_queue"]._writer.fileno()).st_ino}  # each iterator has a pipe of its own
    if _is_watched:
        load("dlprobe_settings").worker.look(here, fields["loader"])
        return
    _is_watched = True
    is_map = is_map_style(here["dataset_kind"])
    fields.update(place_of_samples(here["dataset"], is_map))
    load("dlprobe_batches").watch_sender(here, fields)
    is_forked = "dlprobe_epochs" in sys.modules  # from a trainer; of another worker its trainer tells whether it is a rank's
    if learning_ranks() or not is_forked:
        _watch_samples_of_rank(fields if is_forked else dict(fields, method="spawn"), frame.f_code, is_map)
    if is_map or here["num_workers"] > 1:
        _watch_samples(here, is_map, fields)


def _watch_samples(here, is_map, fields):
    fetcher = _class_of_fetcher(is_map)
    has_files, sockets = open_kinds() if here["num_workers"] > 1 else (False, [])
    things = list(things_in(("dataset", here["dataset"]))) if is_map or has_files or sockets else []
    numbers = unlocked_files_of(things, fields) if has_files else ()
    positions = _LoaderPositions(fields, numbers) if numbers else None
    if sockets and not has_lock(things):
        _Connections(fields, sockets)
    generators = watched_generators(things, seeded_otherwise(here["seed"], here.get("np_seed"))) if is_map else ()
    writes = load("dlprobe_writes")
    gate, rewritten = writes.Gate(), writes.Samples(fields, things) if is_map else None
    _watch(fetcher, "auto_collation", positions and positions.begin, rewritten and rewritten.begin, gate.begin)
    _watch(fetcher, "dataset" if is_map else "dataset_iter", generators and Draws(dict(fields, count=here["worker_id"]), generators),
           positions and positions.begin)
    samples = None if is_map else _Samples(fields)
    _watch(fetcher, "collate_fn", samples or _Missing(fields), positions and positions.end, rewritten and rewritten.end, gate.end)
    if samples is not None:
        call_before(sys.modules["torch.utils.data._utils.worker"]._IterableDatasetStopIteration, "__init__", samples.end)
        sys.modules["multiprocessing.util"].Finalize(None, samples.tell, exitpriority=0)
