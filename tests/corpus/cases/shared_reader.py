"""A data set that holds a file or a connection opened before its workers are forked, in jobs of a second or two, which nobody looks at
from outside in time; each of the other kinds is a healthy one like it.

The fault is counted: a job in which every record came as it was written prints "all right"."""
import argparse
import multiprocessing
import os
import socket
import socketserver
import tempfile
import threading
import time

from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

RECORD = 100
RECORDS = 4000


def record_of(index):
    return b"%06d" % index + b"-" * (RECORD - 7) + b"\n"


class Lines(IterableDataset):
    """A text that all workers iterate over."""

    def __init__(self, path):
        self.text = open(path)

    def __iter__(self):
        for line in self.text:
            time.sleep(0.0001)
            yield int(line[:6]) if len(line) == RECORD else -1


class Records(Dataset):
    def __init__(self, path):
        self.path, self.file = path, open(path, "rb")

    def __len__(self):
        return RECORDS

    def read(self, index):
        self.file.seek(index * RECORD)
        return self.file.read(RECORD)

    def __getitem__(self, index):
        time.sleep(0.0001)
        return index if self.read(index) == record_of(index) else -1


class AtOffset(Records):
    def read(self, index):
        return os.pread(self.file.fileno(), RECORD, index * RECORD)


class Reopened(Records):
    """Has the number of the one that was open before, and a thread that reads on."""

    def reopen(self):
        self.file.close()
        self.file = open(self.path, "rb", buffering=0)
        self.lock = threading.Lock()
        threading.Thread(target=self.warm, daemon=True).start()

    def warm(self):
        for index in range(RECORDS):
            self.read(index)
            time.sleep(0.0005)

    def read(self, index):
        with self.lock:
            return super().read(index)


class Lazy(Records):
    """Keeps the one that was open before, too."""

    own = None

    def read(self, index):
        self.own = self.own or open(self.path, "rb")
        self.own.seek(index * RECORD)
        return self.own.read(RECORD)


class OneReads(Records):
    def read(self, index):
        return super().read(index) if get_worker_info().id == 0 else record_of(index)


class Logs(AtOffset):
    """Each worker writes to one log, and reads nothing of it."""

    def __init__(self, path):
        super().__init__(path)
        self.log = open(path + ".log", "a+")

    def read(self, index):
        self.log.write("%d\n" % index)
        self.log.flush()
        return super().read(index)


class Serve(socketserver.StreamRequestHandler):
    """Answers each line with its record."""

    def handle(self):
        for line in self.rfile:
            self.wfile.write(record_of(int(line)))


class Connected(Records):
    """Asks a server."""

    def __init__(self, path):
        super().__init__(path)
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Serve)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.address = server.server_address
        self.connect()

    def connect(self):
        self.peer = socket.create_connection(self.address)
        self.answers = self.peer.makefile("rb", buffering=0)

    def read(self, index):
        self.peer.sendall(b"%d\n" % index)
        return self.answers.read(RECORD)


class ConnectedLazily(Connected):
    """Keeps the connection that was there before, too."""

    owner = None

    def read(self, index):
        if self.owner != os.getpid():
            self.owner, self.first = os.getpid(), (self.peer, self.answers)
            self.connect()
        return super().read(index)


class ConnectedWithLock(Connected):
    def __init__(self, path):
        super().__init__(path)
        self.lock = multiprocessing.Lock()

    def read(self, index):
        with self.lock:
            return super().read(index)


def reopen(_worker):
    get_worker_info().dataset.reopen()


KINDS = {"lines": Lines, "records": Records, "at-offset": AtOffset, "reopened": Reopened, "lazy": Lazy, "one-reads": OneReads, "logs": Logs, "trainer-reads": AtOffset,
         "connection": Connected, "connection-lazy": ConnectedLazily, "connection-locked": ConnectedWithLock}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", default="fork")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.txt")
        with open(path, "wb") as file:
            file.writelines(map(record_of, range(RECORDS)))
        labels = open(path)
        loader = DataLoader(KINDS[options.kind](path), 10, num_workers=options.workers, multiprocessing_context=options.method,
                            worker_init_fn=reopen if options.kind == "reopened" else None)
        seen = []
        for batch in loader:
            seen += batch.tolist()
            if options.kind == "trainer-reads":
                labels.readlines(4000)
        wrong = RECORDS - len(set(seen) - {-1})
        print("%d of %d records missing or wrong" % (wrong, RECORDS) if wrong else "all right", flush=True)


if __name__ == "__main__":
    main()
