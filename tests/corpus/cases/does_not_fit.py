"""Batches that do not fit into /dev/shm: up to 6 x 20 MiB in 64 MiB.

Twin: 6 x 10 MiB, just enough. Six are 2 workers x 2 prefetched, the one in use, and the next one in
the moment before the old one is released.
"""
from common import make_loader, parser, train


def main():
    options = parser(__doc__).parse_args()
    options.batch_size = 10 if options.healthy else 20
    train(make_loader(options), options)


if __name__ == "__main__":
    main()
