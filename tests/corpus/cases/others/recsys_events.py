"""Click events for a recommender: an in-memory list of dicts, negative sampling in worker processes, a factorisation model."""
import argparse
import multiprocessing as mp
import random
import sys
import time
from array import array


def events_as_dicts(count):
    return [{"user": i % 9973, "item": (i * 31) % 5003, "time": 1_600_000_000 + i, "tag": f"s{i % 1000}"} for i in range(count)]


class Columns:
    """The same as four arrays."""

    def __init__(self, count):
        self.user = array("i", (i % 9973 for i in range(count)))
        self.item = array("i", ((i * 31) % 5003 for i in range(count)))

    def __len__(self):
        return len(self.user)

    def __getitem__(self, number):
        return {"user": self.user[number], "item": self.item[number]}


class Sampler:
    """Pairs of a clicked item and one that was not."""

    def __init__(self, events, batch, cache_everything=False):
        self.events, self.batch = events, batch
        self.cache = {} if cache_everything else None

    def __call__(self, seed):
        draw = random.Random(seed)
        rows = []
        for _ in range(self.batch):
            number = draw.randrange(len(self.events))
            event = self.events[number]
            rows.append((event["user"], event["item"], draw.randrange(5003)))
            if self.cache is not None:
                self.cache[seed, number] = self.features(event)
        return rows

    @staticmethod
    def features(event):
        return [float(event["item"] % k) for k in range(1, 2000)]


def sample(seed):
    return sampler(seed)


class Factors:
    def __init__(self):
        self.users, self.items = {}, {}

    def step(self, rows, rate=0.05):
        wins = 0
        for user, liked, other in rows:
            u = self.users.setdefault(user, 0.1)
            a, b = self.items.setdefault(liked, 0.1), self.items.setdefault(other, 0.1)
            wins += u * (a - b) > 0
            self.users[user] = u + rate * (a - b)
            self.items[liked], self.items[other] = a + rate * u, b - rate * u
        return wins / len(rows)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--events", type=int, default=600_000)
parser.add_argument("--columns", action="store_true")
parser.add_argument("--batch", type=int, default=4000)
parser.add_argument("--draws", type=int, default=3000)
parser.add_argument("--seconds", type=float, default=12)
parser.add_argument("--cache-features", action="store_true")

if __name__ == "__main__":
    args = parser.parse_args()
    data = Columns(args.events) if args.columns else events_as_dicts(args.events)
    sampler = Sampler(data, args.batch, args.cache_features)
    model, end = Factors(), time.monotonic() + args.seconds
    with mp.get_context("fork").Pool(2) as pool:
        for number, rows in enumerate(pool.imap(sample, range(args.draws))):
            auc = model.step(rows)
            if number % 50 == 0:
                print(number, "auc", round(auc, 3), file=sys.stderr)
            if time.monotonic() > end:
                break
        pool.terminate()
