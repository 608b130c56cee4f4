"""A data set that each worker has a copy of, and what they do alike because of it; `twin` is a healthy one like it.

The fault is counted: a job in which no sample came twice prints "all differ"."""
import argparse
import functools
import itertools
import random
import sys
import zlib

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, get_worker_info

SAMPLES = 48
MODULE_RNG = numpy.random.RandomState(3)


class Noise:
    """A transform with a generator of its own."""

    def __init__(self, draw):
        self.draw = draw

    def __call__(self, length):
        return self.draw(length)


class Noisy(Dataset):
    def __init__(self, transform, **others):
        self.transform = transform
        vars(self).update(others)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.as_tensor(self.transform(5 + index % 3)[:5])


class Lazy(Noisy):
    """Seeds its generator at the first sample, or makes it then."""

    def __getitem__(self, index):
        if not vars(self).get("is_seeded"):
            self.is_seeded = True
            self.rng = numpy.random.default_rng(get_worker_info().seed)
        return torch.as_tensor(self.rng.normal(size=5))


class LazyState(Noisy):
    def __getitem__(self, index):
        if not vars(self).get("is_seeded"):
            self.is_seeded = True
            self.rng.seed(get_worker_info().seed % 2**32)
        return torch.as_tensor(self.rng.normal(size=5))


class SeededBySample(Noisy):
    def __getitem__(self, index):
        self.rng.manual_seed(index)
        return torch.rand(5, generator=self.rng)


class Permuted(Noisy):
    """The same order in all workers, made by each when it begins."""

    def __getitem__(self, index):
        if not hasattr(self, "order"):
            self.order = self.rng.permutation(SAMPLES)
        return torch.full((5,), float(self.order[index]))


class ModuleWide(Noisy):
    def __getitem__(self, index):
        return torch.as_tensor(MODULE_RNG.normal(size=5))


class GlobalNumbers(Noisy):
    def __getitem__(self, index):
        return torch.as_tensor(numpy.random.normal(size=5) + random.random())


def seed_apart(_worker):
    info = get_worker_info()
    info.dataset.rng.seed(info.seed % 2**32)


def seed_alike(_worker):
    numpy.random.seed(1)
    random.seed(1)


def rng_of(kind):
    rng = {"generator": numpy.random.default_rng, "state": numpy.random.RandomState, "python": random.Random}
    return rng[kind](0) if kind in rng else torch.Generator().manual_seed(0)


def draw_of(kind, rng, length):
    if kind == "python":
        return [rng.gauss(0, 1) for _ in range(length)]
    return torch.rand(length, generator=rng) if kind == "torch" else rng.normal(size=length)


class Reader(Dataset):
    """Draws for the data set."""

    def __init__(self, kind):
        self.rng, self.kind = rng_of(kind), kind

    def __call__(self, length):
        return draw_of(self.kind, self.rng, length)


def map_style(job, kind):
    transform = Noise(functools.partial(Reader.__call__, Reader(kind)))
    state = numpy.random.RandomState(0)
    made = {
        "copied": lambda: Noisy(transform),
        "copied-in-closure": lambda: Subset(Noisy(lambda length: draw_of(kind, rng, length)), range(SAMPLES))
        if (rng := rng_of(kind)) else None,
        "module": lambda: ModuleWide(None),
        "seeded-alike": lambda: GlobalNumbers(None),
        "global": lambda: GlobalNumbers(None),
        "seeded-apart": lambda: Noisy(lambda length: state.normal(size=length), rng=state),
        "lazy": lambda: Lazy(None, rng=numpy.random.default_rng(0)),
        "lazy-state": lambda: LazyState(None, rng=state),
        "by-sample": lambda: SeededBySample(None, rng=torch.Generator()),
        "permuted": lambda: Permuted(None, rng=state),
        "in-trainer": lambda: Noisy(lambda length: torch.rand(length), rng=state, means=state.normal(size=9)),
    }
    return made[job]()


def endless(job, files):
    """All of them, again and again, until the trainer leaves the loader."""
    while True:
        if job == "stream-endless-shuffled":
            random.shuffle(files)
        yield from (torch.full((5,), float(each)) for each in files)


class Stream(IterableDataset):
    def __init__(self, job):
        self.job, self.rng = job, random.Random(0)

    def __iter__(self):
        info = get_worker_info()
        files = list(range(SAMPLES))
        if self.job.startswith("stream-endless"):
            return endless(self.job, files)
        part = slice(info.id, None, info.num_workers)
        if self.job == "stream-constant":
            return iter([torch.ones(5)] * SAMPLES)
        if self.job == "stream-shuffled":  # alike in all workers, and then shared out
            self.rng.shuffle(files)
            files = files[part]
        if self.job == "stream-shuffled-apart":
            random.Random(info.id).shuffle(files)
            files = files[part]
        if self.job == "stream-sliced":
            files = itertools.islice(itertools.count(), info.id, 2 * SAMPLES, info.num_workers)
        if self.job == "stream-header":
            files = [*range(4), *files[4 + info.id::info.num_workers]]
        if self.job == "stream-looks-ahead":
            half = SAMPLES // info.num_workers
            files = files[info.id * half:(info.id + 1) * half + 10]
        if self.job == "stream-hashed":
            files = [each for each in range(2 * SAMPLES) if hash(str(each)) % info.num_workers == info.id]
        if self.job == "stream-checksummed":
            files = [each for each in files if zlib.crc32(b"%d" % each) % info.num_workers == info.id]
        if self.job == "stream-of-one-file":  # repeated on purpose
            files = [each for file in ([files[:20]] * 4)[part] for each in file]
        if self.job == "stream-of-labels":
            files = [each // 2 % 10 for each in range(400)][part]
        return ({"number": torch.full((5,), float(each)), "name": "file %d" % each} for each in files)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--kind", default="generator")
    parser.add_argument("--method", default="fork")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    options = parser.parse_args()
    dataset = Stream(options.job) if options.job.startswith("stream") else map_style(options.job, options.kind)
    seeds = {"seeded-alike": seed_alike, "seeded-apart": seed_apart}
    loader = DataLoader(dataset, options.batch_size, num_workers=options.workers, multiprocessing_context=options.method,
                        worker_init_fn=seeds.get(options.job))
    seen = []
    for batch in itertools.islice(loader, 24 if options.job.startswith("stream-endless") else None):
        batch = batch["number"] if isinstance(batch, dict) else batch
        seen += [tuple(sample.tolist()) for sample in batch]
    repeated = len(seen) - len(set(seen))
    print("%d of %d samples came before" % (repeated, len(seen)) if repeated else "all differ", torch.__version__)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
