"""A job whose epochs are all the same, in order or in random numbers; the other kinds are healthy ones like it.

The fault is counted: a job of which no epoch is like the first prints "all differ"."""
import argparse
import contextlib
import random
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Subset, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

SAMPLES = 64


class Numbered(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.tensor([float(index), 1.])


class Noisy(Numbered):
    def __init__(self):
        self.rng = numpy.random.default_rng(3)

    def __getitem__(self, index):
        return torch.tensor([float(index), self.rng.normal()])


class Augmented(Numbered):
    def __getitem__(self, index):
        return torch.tensor([float(index), numpy.random.normal()])


class Buffered(IterableDataset):
    """A stream that is shuffled within a buffer."""

    def __init__(self, is_anew=False):
        self.is_anew = is_anew

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rng, kept = random.Random(info.seed if self.is_anew else info.id), []
        for number in range(info.id, 160, info.num_workers):
            kept.append(torch.tensor([float(number), 1.]))
            if len(kept) > 20:
                yield kept.pop(rng.randrange(len(kept)))
        yield from kept


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def seed_worker(worker):
    numpy.random.seed(1000 + worker)


def begin_slowly(_worker):
    time.sleep(.25)


def seed_worker_anew(_worker):
    numpy.random.seed(torch.initial_seed() % 2**32)


class Job:
    def __init__(self, options):
        self.options, self.orders = options, []
        self.begin_anew()

    def begin_anew(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-4)

    def loader(self, data=None, **options):
        workers = self.options.workers
        if workers:
            options.setdefault("persistent_workers", self.options.persistent)
            options.setdefault("multiprocessing_context", self.options.method)
        return DataLoader(data or Numbered(), 8, num_workers=workers, **options)

    def learn(self, loader):
        """An epoch."""
        order = []
        for batch in loader:
            order.append(batch)
            if self.options.without_model:
                continue
            self.optimizer.zero_grad()
            self.model(batch).mean().backward()
            self.optimizer.step()
        self.orders.append(torch.cat(order))

    def repeat(self, loader, before_epoch=lambda epoch: None):
        for epoch in range(3 if self.options.without_model else 2):
            before_epoch(epoch)
            self.learn(loader)

    def repeat_with(self, make_sampler, generator=None):
        generator = generator or torch.Generator()
        self.repeat(self.loader(sampler=make_sampler(generator)), lambda _: generator.manual_seed(0))

    # ---- epochs that are the same

    def unset_epoch(self):
        self.repeat(self.loader(sampler=DistributedSampler(Numbered(), 1, 0)))

    def made_anew(self, seed_of=lambda epoch: 0):
        for epoch in range(3 if self.options.without_model else 2):
            self.learn(self.loader(shuffle=True, generator=seeded(seed_of(epoch))))

    def seeded_again(self):
        self.repeat_with(lambda generator: RandomSampler(Numbered(), generator=generator))

    def subset(self):
        self.repeat_with(lambda generator: SubsetRandomSampler(range(32), generator))

    def weighted(self):
        self.repeat_with(lambda generator: WeightedRandomSampler([1.] * SAMPLES, 32, generator=generator))

    def global_seed(self):
        self.repeat(self.loader(shuffle=True), lambda _: torch.manual_seed(7))

    def seeded_workers(self):
        self.repeat(self.loader(Augmented(), worker_init_fn=seed_worker))

    def copied(self):
        self.repeat(self.loader(Noisy()))

    def buffered(self):
        self.repeat(self.loader(Buffered()))

    def left(self):
        """Each batch is the first one of workers that start for it."""
        loader = self.loader(worker_init_fn=begin_slowly)
        for _ in range(20):
            self.learn([next(iter(loader))])
        self.orders = []

    # ---- that are not

    def begun_in_handler(self):
        """The workers of a later epoch are forked while StopIteration is handled."""
        loader = self.loader(shuffle=True)
        batches = iter(loader)
        for _ in range(20):
            try:
                batch = next(batches)
            except StopIteration:
                batches = iter(loader)
                batch = next(batches)
            self.learn([batch])
        self.orders = []

    def buffered_apart(self):
        self.repeat(self.loader(Buffered(is_anew=True)))

    def set_epoch(self):
        sampler = DistributedSampler(Numbered(), 1, 0)
        self.repeat(self.loader(sampler=sampler), sampler.set_epoch)

    def made_anew_apart(self):
        self.made_anew(lambda epoch: epoch)

    def goes_on(self):
        self.repeat(self.loader(shuffle=True, generator=seeded(0)))

    def seeded_apart(self):
        self.repeat(self.loader(Augmented(), worker_init_fn=seed_worker_anew))

    # ---- or are to be

    def in_order(self):
        self.repeat(self.loader())

    def evaluated(self, guard=contextlib.nullcontext):
        """It evaluates with a sampler that shuffles, and asks for no gradients within its loop."""
        sampler = DistributedSampler(Numbered(), 1, 0)
        loader, other = self.loader(sampler=sampler), self.loader(Augmented(),
                                                                  sampler=DistributedSampler(Numbered(), 1, 0), worker_init_fn=seed_worker)
        for epoch in range(4):
            sampler.set_epoch(epoch)
            self.learn(loader)
            with guard():
                for batch in other:
                    with torch.no_grad():
                        self.model(batch)

    def attacked(self):
        """It evaluates under an attack, for which it needs gradients."""
        sampler = DistributedSampler(Numbered(), 1, 0)
        loader, other = self.loader(sampler=sampler), self.loader(sampler=DistributedSampler(Numbered(), 1, 0))
        for epoch in range(3):
            sampler.set_epoch(epoch)
            self.learn(loader)
            for batch in other:
                self.model(batch.requires_grad_()).mean().backward()

    def evaluated_in_guard(self):
        self.evaluated(torch.no_grad)

    def statistics(self):
        """A pass for the mean, and one epoch."""
        loader = self.loader(sampler=DistributedSampler(Numbered(), 1, 0))
        print(sum(batch.mean() for batch in loader))
        self.learn(loader)

    def runs(self):
        """Each trains a model of its own."""
        loader = self.loader(shuffle=True)
        for _ in range(4):
            torch.manual_seed(0)
            self.begin_anew()
            self.learn(loader)
        self.orders = []

    def clients(self):
        """They have data of their own, and train one model."""
        for first in range(0, 48, 16):
            self.learn(self.loader(Subset(Numbered(), range(first, first + 16)), shuffle=True, generator=seeded(0)))
        self.orders = []

    def one_batch(self):
        """It is learnt by heart."""
        loader = self.loader(sampler=DistributedSampler(Numbered(), 1, 0))
        for _ in range(5):
            self.learn([next(iter(loader))])
        self.orders = []

    def pairs(self):
        """Two views of the same samples, in one order."""
        loaders = [self.loader(shuffle=True, generator=seeded(0)) for _ in range(2)]
        self.learn(one + other for one, other in zip(*loaders))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--method")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--without-model", action="store_true")
    options = parser.parse_args()
    job = Job(options)
    getattr(job, options.kind.replace("-", "_"))()
    first, others = job.orders[:1], job.orders[1:]
    like = sum(torch.equal(first[0], each) for each in others)
    print("%d of %d epochs are like the first" % (like, len(others)) if like else "all differ", torch.__version__)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
