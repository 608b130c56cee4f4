"""Batches that do not fit into /dev/shm: 5 x 20 MiB in 64 MiB. Twin: 5 x 11 MiB, just enough."""
from common import make_loader, parser, train


def main():
    options = parser(__doc__).parse_args()
    options.batch_size = 11 if options.healthy else 20
    train(make_loader(options), options)


if __name__ == "__main__":
    main()
