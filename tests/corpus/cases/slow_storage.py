"""A file system with one file, `data`, that stands beside the job: FUSE, by the kernel's protocol
(include/uapi/linux/fuse.h, 7.31). It never answers to a read, or answers to nothing at all any more.

Twin: it answers to reads after a moment.
"""
import argparse
import ctypes
import os
import struct
import threading
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
WITHOUT_REPLY = (FORGET, BATCH_FORGET, INTERRUPT)
HEADER = struct.Struct("=IIQQIIII")
REPLY = struct.Struct("=IiQ")
ROOT, DATA = 1, 2
SIZE = 1 << 20
ENOENT, ENOSYS = 2, 38
LIFE_S = 100
FOLDER = "/dev/shm/storage"  # of the case alone: it goes with its mount namespace


def attributes(node):
    mode, size = (0o40755, 0) if node == ROOT else (0o100644, SIZE)
    return struct.pack("=6Q3I7I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class FileSystem:
    def __init__(self, options):
        self.options = options
        self.device = os.open("/dev/fuse", os.O_RDWR)
        self.silent = False

    def mount(self, folder):
        settings = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"slow_storage", folder.encode(), b"fuse", 0, settings.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount of FUSE")

    def answer(self, opcode, node, body):
        """Bytes, or an error number; None for no answer at all."""
        if opcode == INIT:
            _major, _minor, readahead, _flags = struct.unpack_from("=4I", body)
            return struct.pack("=4I2H2I2HI7I", 7, 31, readahead, 0, 0, 0, 1 << 16, 1, 0, 0, 0, *[0] * 7)
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != b"data":
                return ENOENT
            return struct.pack("=4Q2I", DATA, 0, 0, 0, 0, 0) + attributes(DATA)
        if opcode == GETATTR:
            return struct.pack("=Q2I", 0, 0, 0) + attributes(node)
        if opcode == OPEN:
            return struct.pack("=Q2I", 0, 0, 0)
        if opcode in (RELEASE, FLUSH):
            return b""
        if opcode == READ:
            self.silent = self.options.dead
            _handle, _offset, size = struct.unpack_from("=2QI", body)
            if not self.options.healthy:
                return None
            time.sleep(0.01)
            return bytes(size)
        return ENOSYS

    def serve(self):
        while True:
            request = os.read(self.device, 1 << 17)
            _length, opcode, unique, node, *_ = HEADER.unpack_from(request)
            if self.silent or opcode in WITHOUT_REPLY:
                continue
            answer = self.answer(opcode, node, request[HEADER.size:])
            if answer is None:
                continue
            error, data = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self.device, REPLY.pack(REPLY.size + len(data), error, unique) + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--dead", action="store_true", help="after the first read it answers to nothing")
    file_system = FileSystem(parser.parse_args())
    os.makedirs(FOLDER, exist_ok=True)
    file_system.mount(FOLDER)
    threading.Timer(LIFE_S, os._exit, (0,)).start()
    print("ready", flush=True)
    file_system.serve()


if __name__ == "__main__":
    main()
