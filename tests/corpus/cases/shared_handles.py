"""Jobs of five seconds whose processes read one file, or one connection, opened before the fork.

Twin: nobody moves another's position, or takes another's answer.
"""
import argparse
import mmap
import multiprocessing
import os
import socket
import socketserver
import tempfile
import threading
import time
import zipfile
import zlib

LIFE_S = 4.0
RECORD = 1000
RECORDS = 1000
WORKERS = 4


def offset_of(index):
    return index * 7919 % RECORDS * RECORD


def read_records(handle, read, first):
    end = time.monotonic() + LIFE_S
    while time.monotonic() < end:
        read(handle, offset_of(first))
        first += 1
        time.sleep(0.004)  # on a busy machine, too, one moves it at a time now and then


def seek_and_read(handle, offset):
    handle.seek(offset)
    return handle.read(RECORD)


def read_at(handle, offset):
    return os.pread(handle.fileno(), RECORD, offset)


def records(path, healthy):
    """A handle of the trainer's; the twin's workers read it at an offset."""
    handle = open(path, "rb", buffering=0)
    read = read_at if healthy else seek_and_read
    workers = [multiprocessing.Process(target=read_records, args=(handle, read, 97 * i)) for i in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


HANDLES = []


def buffered_record(index):
    if os.getpid() != HANDLES[0][0] and HANDLES[0][2]:
        HANDLES[0] = (os.getpid(), open(HANDLES[0][1].name, "rb"), True)
    time.sleep(0.001)  # its decoding
    handle = HANDLES[0][1]
    handle.seek(offset_of(index))
    return len(handle.read(RECORD))


def feed(pool, function):
    """Tasks for as long as the job lives; the trainer takes their results."""
    end = time.monotonic() + LIFE_S
    first = 0
    while time.monotonic() < end:
        pool.map(function, range(first, first + 64), chunksize=4)
        first += 64


def pool(path, healthy):
    """A buffered reader in a global; the twin's workers open one of their own at their first task."""
    HANDLES.append((os.getpid(), open(path, "rb"), healthy))
    with multiprocessing.Pool(WORKERS) as workers:
        feed(workers, buffered_record)


def locked_record(index):
    with HANDLES[1]:
        HANDLES[0].seek(offset_of(index))
        record = HANDLES[0].read(RECORD)
    time.sleep(0.001)  # its decoding
    return len(record)


def begin_locked(*things):
    HANDLES[:] = things


def locked(path, _healthy):
    """One handle for all, and a lock around each seek and read; never a mistake."""
    things = open(path, "rb", buffering=0), multiprocessing.Lock()
    with multiprocessing.Pool(WORKERS, initializer=begin_locked, initargs=things) as workers:
        feed(workers, locked_record)


def archive_record(index):
    time.sleep(0.001)
    try:
        return len(HANDLES[0].read(str(index % 50)))
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return 0  # as many a data set skips what is broken


def archive(path, healthy):
    """A zip archive; in the twin the trainer alone reads it, and sends what it has read."""
    name = path + ".zip"
    with zipfile.ZipFile(name, "w") as writer:
        for index in range(50):
            writer.writestr(str(index), os.urandom(20 * RECORD))
    HANDLES.append(zipfile.ZipFile(name))
    with multiprocessing.Pool(WORKERS) as workers:
        if not healthy:
            return feed(workers, archive_record)
        end = time.monotonic() + LIFE_S
        while time.monotonic() < end:
            workers.map(len, [HANDLES[0].read(str(index)) for index in range(16)])


def mapping(path, healthy):
    """A mapping of the file, whose length the trainer asks by seeking now and then; never a mistake."""
    handle = open(path, "rb")
    view = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    HANDLES.append(view)
    with multiprocessing.Pool(WORKERS) as workers:
        end = time.monotonic() + LIFE_S
        first = 0
        while time.monotonic() < end:
            done = workers.map_async(mapped_record, range(first, first + 64), chunksize=4)
            handle.seek(offset_of(first))
            time.sleep(0.001)
            handle.seek(0, os.SEEK_END)
            done.wait()
            first += 64


def mapped_record(index):
    return len(HANDLES[0][offset_of(index):offset_of(index) + RECORD])


class Answers(socketserver.StreamRequestHandler):
    def handle(self):
        while request := self.rfile.read(8):
            time.sleep(0.005)
            self.wfile.write(request)


def ask_for_records(connection, address, first):
    connection = connection or socket.create_connection(address)
    end = time.monotonic() + LIFE_S
    while time.monotonic() < end:
        connection.sendall(first.to_bytes(8, "big"))
        connection.recv(8)
        first += 1


def connection(_path, healthy):
    """A store that workers ask by the trainer's connection; the twin's connect by themselves."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as store:
        store.daemon_threads = True
        threading.Thread(target=store.serve_forever, daemon=True).start()
        shared = None if healthy else socket.create_connection(store.server_address)
        workers = [multiprocessing.Process(target=ask_for_records, args=(shared, store.server_address, 1000 * i))
                   for i in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        store.shutdown()


KINDS = {"records": records, "pool": pool, "archive": archive, "locked": locked, "mapping": mapping, "connection": connection}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--healthy", action="store_true")
    options = parser.parse_args()
    multiprocessing.set_start_method("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.bin")
        with open(path, "wb") as file:
            file.write(os.urandom(RECORD * RECORDS))
        KINDS[options.kind](path, options.healthy)


if __name__ == "__main__":
    main()
