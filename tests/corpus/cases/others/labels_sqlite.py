# Labels live in SQLite. A thread in the trainer counts them for the progress bar while the loaders start.
import argparse
import sqlite3
import tempfile
import threading
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

ap = argparse.ArgumentParser()
ap.add_argument("--rows", type=int, default=200_000)
ap.add_argument("--connection", choices=["global", "per-process"], default="global")
ap.add_argument("--stats", choices=["before", "during"], default="during", help="when the long query runs")
args = ap.parse_args()

LONG = "SELECT count(*) FROM labels a JOIN labels b ON abs(a.x - b.x) < 2 WHERE a.id < 300"
mp = get_context("fork")


class Labels:
    def __init__(self, path):
        self.path = path
        self.db = self.connect()

    def connect(self):
        return sqlite3.connect(self.path, check_same_thread=False)

    def fill(self, rows):
        self.db.execute("CREATE TABLE labels (id INTEGER PRIMARY KEY, name TEXT, x REAL)")
        self.db.executemany("INSERT INTO labels VALUES (?, ?, ?)", ((i, f"img_{i:06}.jpg", (i * 37 % 1000) / 10) for i in range(rows)))
        self.db.commit()

    def statistics(self):
        return self.db.execute(LONG).fetchone()[0]

    def box(self, index):
        return self.db.execute("SELECT name, x FROM labels WHERE id = ?", (index,)).fetchone()


def init():
    if args.connection == "per-process":
        labels.db = labels.connect()


def load(index):
    name, x = labels.box(index)
    return len(name), x


with tempfile.TemporaryDirectory() as folder:
    labels = Labels(Path(folder) / "labels.db")
    labels.fill(args.rows)
    if args.stats == "during":
        stats = threading.Thread(target=lambda: print("pairs:", labels.statistics()))
        stats.start()
        threading.Event().wait(0.3)  # the progress bar has been drawn
    else:
        stats = None
        labels.statistics()
    with mp.Pool(2, init) as pool:
        total = 0.0
        for n, (_len, x) in enumerate(pool.imap_unordered(load, range(0, args.rows, 400), chunksize=20)):
            total += x
        print("mean x", total / (n + 1))
    if stats:
        stats.join()
    with closing(labels.db):
        pass
