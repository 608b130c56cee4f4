"""The random generators that a worker holds: which there are, and from which it draws, for the samples of a DataLoader (see
dlprobe_data.py) or between the data that a process of multiprocessing sends to others.

What a generator would give is drawn from a copy. No method of the program's own is called.
"""
import os
import sys
from _thread import get_ident
from itertools import islice

from dlprobe_start import pass_on, tell
from dlprobe_trace import MAIN_NAMES, POOLS, is_users_file, place_of_code

_MOST_OBJECTS = 1500  # of a data set, or of a process; an object takes a microsecond
_MOST_OF_LIST = 16
_MOST_LOOKS = 32  # at the generators of one worker
_MOVES = 3  # who draws for one sample only may make an order, which has to be the same in all workers
_SEEDS = "set_random_seed"  # a method by which a pipeline of transforms seeds all its generators (albumentations)
_MOST_PROCESSES = 16  # of one parent
_MOST_MESSAGES, _MOST_DEPTH = 500, 3
_LEAST_DATA = 1 << 10  # bytes; what is smaller may be a line of a log, or the result of a run that is to begin as others
_LEAST_PART = .5  # of messages; who draws for fewer may make an order
_NUMBERS = (1 << 12, 1 << 16, 1 << 20)  # of a generator, among which its next ones are sought


class Unknown(Exception):
    """Nothing is said of a generator of another kind, or of a sample that is not known in all its parts."""


def attributes_of(thing):
    try:
        return object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}


def _plain(state):
    """What can be compared."""
    if isinstance(state, dict):
        return [(key, _plain(state[key])) for key in sorted(state)]
    return state.tobytes() if hasattr(state, "tobytes") else state


class _OfPython:
    name = "random.Random"

    @staticmethod
    def state(generator):
        return generator.getstate()

    @staticmethod
    def numbers(generator, state, count):
        """The next ones, as bytes, which a generator in that state gives."""
        copy = type(generator)()
        copy.setstate(state)
        return copy.getrandbits(32 * count).to_bytes(4 * count, "little")


class _OfNumpy:
    name = "numpy.random.Generator"

    @staticmethod
    def state(generator):
        if not type(generator.bit_generator).__module__.startswith("numpy."):
            raise Unknown
        return generator.bit_generator.state

    @staticmethod
    def numbers(generator, state, count):
        copy = type(generator.bit_generator)()
        copy.state = state
        return copy.random_raw(count).tobytes()


class _OfOldNumpy:
    name = "numpy.random.RandomState"

    @staticmethod
    def state(generator):
        if type(getattr(generator, "_bit_generator", None)).__name__ not in ("MT19937", "NoneType"):  # none: numpy 1.16
            raise Unknown
        return dict(enumerate(generator.get_state()))

    @staticmethod
    def numbers(generator, state, count):
        copy = type(generator)()
        copy.set_state(tuple(state.values()))
        return copy.bytes(4 * count)


class _OfTorch:
    name = "torch.Generator"

    @staticmethod
    def state(generator):
        if generator.device.type != "cpu":
            raise Unknown
        return generator.get_state().numpy()

    @staticmethod
    def numbers(generator, state, count):
        torch = sys.modules["torch"]
        copy = torch.Generator()
        copy.set_state(torch.from_numpy(state))
        # Of a larger range torch takes two of the generator's own numbers for each.
        return torch.empty(count, dtype=torch.int32).random_(0, 1 << 24, generator=copy).numpy().tobytes()


def _kinds():
    """How each class of generators is read."""
    kinds = {}
    for module, name, kind in (("random", "Random", _OfPython), ("numpy.random", "Generator", _OfNumpy),
                               ("numpy.random", "RandomState", _OfOldNumpy), ("torch", "Generator", _OfTorch)):
        if hasattr(sys.modules.get(module), name):
            kinds[getattr(sys.modules[module], name)] = kind
    return kinds


def is_users_module(module):
    if type(module) is not type(sys):
        return False
    known = vars(module)
    if known.get("__file__"):
        return is_users_file(known["__file__"])
    return known.get("__name__") in MAIN_NAMES or "__path__" in known  # else it is built in


def items(sequence):
    """Of a list or a tuple, whatever its class makes of that."""
    return (list if issubclass(type(sequence), list) else tuple).__iter__(sequence)


def parts_of(path, thing):
    """What it is made of, as far as that can be seen without running its code: names and objects."""
    kind = type(thing)
    if kind is type(sys):
        if is_users_module(thing):
            prefix = "" if thing.__name__ in MAIN_NAMES else thing.__name__ + "."
            yield from ((prefix + name, value) for name, value in list(vars(thing).items()) if not name.startswith("__"))
    elif issubclass(kind, type):
        module = sys.modules.get(vars(thing).get("__module__"))
        if is_users_module(module):
            yield from (("%s.%s" % (thing.__qualname__, name), value) for name, value in list(vars(thing).items()))
            yield from (("", base) for base in thing.__bases__)
            yield "", module
    elif issubclass(kind, (list, tuple)):
        for index, value in enumerate(islice(items(thing), _MOST_OF_LIST)):
            yield "%s[%d]" % (path, index), value
    elif issubclass(kind, dict):
        for key, value in islice(dict.items(thing), _MOST_OF_LIST):
            yield "%s[%s]" % (path, repr(key) if type(key) in (str, int) else "..."), value
    elif kind is _FUNCTION:
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or ()):
            try:
                yield "%s.%s" % (thing.__qualname__.rpartition(".")[0], name), cell.cell_contents
            except ValueError:  # it is empty
                pass
        yield "", sys.modules.get(thing.__module__)
    elif kind is _METHOD:
        yield path, thing.__self__
        yield "", thing.__func__
    elif kind is _GENERATOR and thing.gi_frame is not None:
        yield from (("%s.%s" % (path, name), value) for name, value in list(thing.gi_frame.f_locals.items()))
    elif kind.__module__ == "functools" and kind.__name__ == "partial":
        yield from ((path, thing.func), (path + ".args", thing.args), (path + ".keywords", thing.keywords))
    else:
        for name, value in list(attributes_of(thing).items()):
            yield "%s.%s" % (path, name), value
        yield "", kind


_FUNCTION, _METHOD, _GENERATOR = type(items), type(tell.__get__(1)), type(each for each in ())
_PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None))


def things_in(*things, passed_over=_PLAIN, parts_of=parts_of):
    """What a data set, its transforms and their modules are made of, with their names."""
    things, seen = list(things), set()
    for path, thing in things:
        if id(thing) in seen or type(thing) in passed_over:
            continue
        seen.add(id(thing))
        yield path, thing
        if len(things) < _MOST_OBJECTS and type(thing).__module__ != "_io":
            things.extend(islice(parts_of(path, thing), _MOST_OBJECTS))


def seeded_otherwise(seed, numpy_seed):
    """Generators of the libraries that are not as PyTorch seeds them for each worker."""
    random, torch, numpy = sys.modules["random"], sys.modules["torch"], sys.modules.get("numpy.random")
    if random.getstate() != random.Random(seed).getstate():
        yield "random", random._inst
    if torch.initial_seed() != seed:
        yield "torch", torch.default_generator
    if hasattr(numpy, "mtrand"):
        own = numpy.mtrand._rand
        if numpy_seed is None or _plain(_OfOldNumpy.state(own)) != _plain(_OfOldNumpy.state(type(own)(numpy_seed))):
            yield "numpy.random", own


class _Generator:
    def __init__(self, path, generator, kind, seeded_by):
        self.path, self.kind, self.seeded_by, self._generator = path, kind, seeded_by, generator
        self._first, self._second, self.moves = kind.state(generator), None, 0
        self._last = _plain(self._first)

    def look(self):
        state = self.kind.state(self._generator)
        if _plain(state) == self._last:
            return
        self._last = _plain(state)
        self.moves += 1
        if self._second is None:
            self._second = state

    def has_gone_on(self):
        """Whether it came from its first state to the second by being drawn from, and was not seeded."""
        wanted = self._numbers(self._second, 4)
        return any(wanted in self._numbers(self._first, count) for count in _NUMBERS)

    def digest(self):
        return self._numbers(self._first, 6).hex()

    def _numbers(self, state, count):
        return self.kind.numbers(self._generator, state, count)


class Draws:
    """Before each sample: which generators has the worker drawn from?"""

    def __init__(self, fields, generators, least=0.):
        """`least`: for which part of the samples at least."""
        self._fields, self._left, self._least, self._looks = fields, generators, least, 0

    def __call__(self, *_):
        self._looks += 1
        for each in list(self._left):
            each.look()
            if each.moves < max(_MOVES, self._looks * self._least):
                continue
            self._left.remove(each)
            if each.has_gone_on():
                tell("draws", path=each.path, type=each.kind.name, digests=[each.digest()], wanted=each.seeded_by, **self._fields)
        return bool(self._left) and self._looks < _MOST_LOOKS


def watched_generators(things, of_libraries):
    kinds, things = _kinds(), list(things)
    seeding = [path + "." + _SEEDS for path, thing in things if path and callable(getattr(type(thing), _SEEDS, None))]
    found = [each for each in things if type(each[1]) in kinds]
    known = {id(generator) for _path, generator in found}
    found += [each for each in of_libraries if id(each[1]) not in known]
    watched = []
    for path, generator in found:
        try:
            seeded_by = next((each for each in seeding if path.startswith(each[:-len(_SEEDS)])), None)
            watched.append(_Generator(path, generator, kinds[type(generator)], seeded_by))
        except Unknown:
            pass
    return watched


# ---- in a process of multiprocessing


def _generators_of_libraries():
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if hasattr(numpy, "mtrand"):
        yield "numpy.random", numpy.mtrand._rand
    if hasattr(torch, "default_generator"):
        yield "torch", torch.default_generator
    if hasattr(sys.modules.get("random"), "_inst"):  # which forked processes seed by themselves (CPython 3.7)
        yield "random", sys.modules["random"]._inst


def _size_of(thing, depth=0):
    """That of the arrays, tensors and bytes in it."""
    torch, numpy, kind = sys.modules.get("torch"), sys.modules.get("numpy"), type(thing)
    if kind is bytes:
        return len(thing)
    if kind is getattr(numpy, "ndarray", None):
        return thing.nbytes
    if kind is getattr(torch, "Tensor", None):
        return thing.numel() * thing.element_size()
    if depth < _MOST_DEPTH and kind in (dict, list, tuple):
        return sum(_size_of(each, depth + 1) for each in islice(thing.values() if kind is dict else thing, _MOST_OF_LIST))
    return 0


class _Sends:
    """Before this process sends data: which generators has it drawn from?"""

    def __init__(self, fields, generators):
        self._fields, self._generators, self._draws = fields, generators, None
        self._thread, self._pid, self._messages = get_ident(), os.getpid(), 0

    def goes_on(self, pipe, size, worker):
        """Which worker of a pool has which task is chance: none is to begin as another one, however small its results are."""
        if get_ident() != self._thread or os.getpid() != self._pid:
            return True
        self._messages += 1
        is_data = size() >= _LEAST_DATA
        if is_data or worker is not None:
            if self._draws is None:  # all workers of a loader or a pool have one pipe
                self._draws = Draws(dict(self._fields, loader=pipe()), self._of(is_data), _LEAST_PART)
            if not self._draws():
                return False
        return self._messages < _MOST_MESSAGES

    def _of(self, is_data):
        """Of torch's own each new model is drawn, whose weights may be loaded then."""
        return [each for each in self._generators if is_data or each.path != "torch"]


class Looked:
    """A member of a class, in its place: calls `notice` when it is looked up, as long as that says true."""

    def __init__(self, owner, name, notice):
        self._owner, self._name, self._notice, self._member = owner, name, notice, vars(owner)[name]
        if not isinstance(self._member, Looked):
            setattr(owner, name, self)

    def __get__(self, instance, owner=None):
        try:
            if not self._notice(instance, sys._getframe(1)) and vars(self._owner).get(self._name) is self:
                setattr(self._owner, self._name, self._member)
        except Exception as error:
            pass_on(error)
        return self._member.__get__(instance, owner) if hasattr(self._member, "__get__") else self._member


def _size_of_message(message):
    """A tensor is sent by its name."""
    return _LEAST_DATA if message.nbytes < _LEAST_DATA and b"torch.multiprocessing" in bytes(message) else message.nbytes


_sends = []


def _worker_at(frame):
    """That frame, if the worker of a pool sends a result there; else None."""
    is_worker = frame.f_code.co_name in ("worker", "_process_worker", "_sendback_result") \
        and frame.f_globals.get("__name__", "").endswith(POOLS)
    return frame if is_worker else None


def _look(pipe, size, worker=None):
    for each in list(_sends):
        if not each.goes_on(pipe, size, worker):
            _sends.remove(each)


def _before_send(connection, frame):
    if _sends and frame.f_code.co_name == "send_bytes":  # what SimpleQueue sends by
        _look(lambda: os.fstat(connection._handle).st_ino, lambda: _size_of_message(frame.f_locals["m"]),
              _worker_at(frame.f_back.f_back))
    return bool(_sends)


def watch_sends(watcher):
    """Asks it before this process sends something, as long as its goes_on(pipe, size, frame of a pool's worker) says so."""
    _sends.append(watcher)
    Looked(sys.modules["multiprocessing.connection"].Connection, "_send_bytes", _before_send)


def before_put(thing, pipe):
    """In the thread that puts it into a multiprocessing.Queue."""
    if _sends:
        _look(lambda: pipe, lambda: _size_of(thing))


def watch_process(process):
    """`process`: this one, which begins. PyTorch's own workers are asked by dlprobe_data.py."""
    del _sends[:]  # of what it was forked from
    target, own = attributes_of(process).get("_target"), sys.modules.get("torch.utils.data._utils.worker")
    is_late = not process._identity or process._identity[-1] > _MOST_PROCESSES
    if is_late or target is getattr(own, "_worker_loop", process):
        return
    things = things_in(("", sys.modules.get("__main__")), *(
        (name.strip("_"), attributes_of(process).get(name)) for name in ("_args", "_kwargs", "_target")), ("process", process),
        passed_over=_PLAIN + (_GENERATOR,))
    generators = watched_generators(things, _generators_of_libraries())
    if generators:
        code = target.__code__ if type(target) is _FUNCTION else getattr(getattr(type(process), "run", None), "__code__", None)
        watch_sends(_Sends(place_of_code(code, getattr(code, "co_qualname", getattr(code, "co_name", ""))), generators))
