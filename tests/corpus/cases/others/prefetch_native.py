"""A ring of two pages between a decoder thread and the training step, read through libc as a C extension would."""
import argparse
import ctypes
import os
import threading
import time
import zlib

PAGE = 65536


class Ring:
    """Pages of a pipe, read by a native call. `binding` is how the library was loaded."""

    def __init__(self, binding):
        self.libc = binding(None, use_errno=True)
        self.read_end, self.write_end = os.pipe()
        self.buffer = ctypes.create_string_buffer(PAGE)

    def take(self):
        have = 0
        while have < PAGE:
            got = self.libc.read(self.read_end, ctypes.byref(self.buffer, have), PAGE - have)
            if got <= 0:
                raise EOFError("the decoder has gone")
            have += got
        return self.buffer.raw


class Decoder(threading.Thread):
    def __init__(self, ring, pages, ahead):
        super().__init__(daemon=True, name="decoder")
        self.ring, self.pages, self.ahead = ring, pages, ahead

    def run(self):
        for number in range(self.pages):
            page = zlib.decompress(zlib.compress(bytes([number % 256]) * PAGE))
            if not self.ahead:
                time.sleep(0.002)
            os.write(self.ring.write_end, page)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--release", action="store_true", help="bind with CDLL, which lets other threads run")
    parser.add_argument("--process", action="store_true", help="decode in a process, not in a thread")
    args = parser.parse_args()

    ring = Ring(ctypes.CDLL if args.release else ctypes.PyDLL)
    decoder = Decoder(ring, args.pages, ahead=False)
    if args.process:
        if os.fork() == 0:
            decoder.run()
            os._exit(0)
    else:
        decoder.start()
    checksum = 0
    for step in range(args.pages):
        checksum = zlib.crc32(ring.take(), checksum)
        if step % 500 == 0:
            print(f"step {step} checksum {checksum:08x}", flush=True)


if __name__ == "__main__":
    main()
