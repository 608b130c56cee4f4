"""A folder on a file system whose server never answers, as a network mount's whose server is gone (FUSE; root only).

Whoever asks for it is in the kernel, and no signal ends the wait: the server has taken the request.
"""

import contextlib
import ctypes
import os
import select
import struct
import tempfile
import threading

FUSE_INIT, MNT_DETACH = 26, 2
NEEDS_FUSE = "needs /dev/fuse and the right to mount: run as root"


def can_mount():
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)


def _serve(device, stop):
    while stop not in select.select([device, stop], [], [])[0]:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return
        _length, opcode, unique = struct.unpack_from("=IIQ", request)
        if opcode == FUSE_INIT:
            body = struct.pack("=IIIIHHIIHH32x", 7, 26, 4096, 0, 12, 9, 4096, 1, 1, 0)
            os.write(device, struct.pack("=IiQ", 16 + len(body), 0, unique) + body)
        # All else is taken, and never answered.


@contextlib.contextmanager
def hung_folder():
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory() as folder:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"hung", folder.encode(), b"fuse", 0, options) != 0:
            os.close(device)
            raise OSError(ctypes.get_errno(), "mount")
        stop, stopper = os.pipe()
        server = threading.Thread(target=_serve, args=(device, stop))
        server.start()
        try:
            yield folder
        finally:
            os.close(stopper)
            server.join()
            os.close(device)  # the connection ends, and whoever waits with it
            os.close(stop)
            libc.umount2(folder.encode(), MNT_DETACH)
