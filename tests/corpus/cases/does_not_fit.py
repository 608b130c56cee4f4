"""Batches that do not fit into /dev/shm: up to 6 x 20 MiB in 64 MiB.

Twin: 6 x 10 MiB, just enough. Six are 2 workers x 2 prefetched, the one in use, and the next one in
the moment before the old one is released.
"""
from common import Samples, make_loader, parser, train


class Named(Samples):
    """Labels that are no tensors. A tensor of labels goes to shared memory in the queue's thread; when that
    one is refused, the batch is lost and the job hangs (lost_batch.py) where it should fail here."""

    def __getitem__(self, index):
        data, label = super().__getitem__(index)
        return data, str(label)


def main():
    options = parser(__doc__).parse_args()
    options.batch_size = 10 if options.healthy else 20
    dataset = Named(options.batches * options.batch_size, options.sample_mib)
    train(make_loader(options, dataset), options)


if __name__ == "__main__":
    main()
