"""Jobs that nothing is wrong with, and that look like trouble from afar."""
import sys
import time

import torch

from common import Samples, make_loader, parser, say, train


class SlowSample(Samples):
    """One sample takes long, so that finished batches wait for it in order."""

    def __init__(self, count, mib, slow_s):
        super().__init__(count, mib)
        self.slow_s = slow_s

    def __getitem__(self, index):
        if index == self.count // 2:
            time.sleep(self.slow_s)
        return super().__getitem__(index)


def plain(options):
    train(make_loader(options), options)


def rise_and_fall(options):
    """Use of shm goes up and down: large batches, then small ones, and again."""
    for size in (10, 1, 10, 1):
        options.batch_size = size
        options.batches = 8
        train(make_loader(options), options)


def long_step(options):
    """The training loop is busy elsewhere for longer than two status checks of a worker."""
    for _data, _label in make_loader(options):
        time.sleep(13)
        break


def busy_trainer(options):
    """As long_step, but computing."""
    for _data, _label in make_loader(options):
        end = time.monotonic() + 13
        while time.monotonic() < end:
            torch.rand(64, 64).sum()
        break


def persistent_idle(options):
    """Persistent workers wait between the epochs."""
    loader = make_loader(options, persistent_workers=True)
    train(loader, options)
    time.sleep(13)
    train(loader, options)


def slow_sample(options):
    """In-order delivery is held up by one slow sample."""
    dataset = SlowSample(options.batches * options.batch_size, options.sample_mib, 13)
    train(make_loader(options, dataset), options)


def kept_batches(options):
    """The consumer keeps the last few batches, as for a running metric."""
    kept = []
    for data, _label in make_loader(options):
        kept = (kept + [data])[-4:]
        time.sleep(options.step_ms / 1000)


def exits_nonzero(options):
    """Fails by a mistake of its own while shm is well used."""
    for number, (_data, _label) in enumerate(make_loader(options)):
        time.sleep(options.step_ms / 1000)
        if number == 5:
            raise ValueError("a mistake in the training step")


def sample_raises(options):
    """Fails by a mistake in the dataset while shm is well used."""

    class Broken(Samples):
        def __getitem__(self, index):
            if index == self.count // 2:
                raise ValueError("a mistake in the dataset")
            return super().__getitem__(index)

    options.start_method = "fork"
    dataset = Broken(options.batches * options.batch_size, options.sample_mib)
    train(make_loader(options, dataset), options)


JOBS = {job.__name__: job
        for job in (plain, rise_and_fall, long_step, busy_trainer, persistent_idle, slow_sample,
                    kept_batches, exits_nonzero, sample_raises)}


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--job", default="plain", choices=JOBS)
    options = arguments.parse_args()
    JOBS[options.job](options)
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
