"""Iterators that are left half-used and kept, under file_system: each keeps its batches, and the
managers never end because the trainer stays connected. Twin: one iterator is used up per epoch."""
import time

from common import make_loader, parser


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=8)
    options = arguments.parse_args()
    options.strategy = "file_system"
    kept = []
    for _ in range(options.rounds):
        loader = make_loader(options)
        iterator = iter(loader)
        kept.append(next(iterator))
        if options.healthy:
            kept.pop()
            for _batch in iterator:
                pass
        time.sleep(0.6)
        del iterator
    time.sleep(2)


if __name__ == "__main__":
    main()
