"""How workers and trainers of the jobs in deaths.py and deaths_torch.py come to their ends. Python 3.8 and later."""
import contextlib
import ctypes
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def fill(mib):
    """Touches so much memory, and keeps it."""
    return [bytearray(os.urandom(1) * MIB) for _ in range(mib)]


def truncated_mapping():
    """Reads beyond the end of a mapped file that was cut off."""
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(16 * MIB)
        data = mmap.mmap(file.fileno(), 0)
        time.sleep(0.3)
        os.truncate(file.name, 4096)
        return data[8 * MIB]


def divide_by_zero():
    """What the processor does at an integer division by zero: CPython checks before it divides."""
    code = b"\x31\xd2\x31\xc9\xb8\x01\x00\x00\x00\xf7\xf1\xc3"  # xor edx,edx; xor ecx,ecx; mov eax,1; div ecx; ret
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()


def too_little_address_space():
    """A MemoryError."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(open("/proc/self/statm", encoding="ascii").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 16 * MIB, hard))
    return bytearray(64 * MIB)


def raise_error():
    raise ValueError("this sample is broken")


class Nested:
    """A tree whose size is asked of each node in turn, through C."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return 1 + sum(map(len, self.inner))


def overflow():
    """A recursion that is deeper than the stack."""
    sys.setrecursionlimit(10**6)
    tree = Nested([])
    for _ in range(100000):
        tree = Nested([tree])
    return len(tree)


def tied_to_parents_thread():
    """Ends with the thread that has started it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    time.sleep(30)


def burn_cpu():
    """Runs into RLIMIT_CPU."""
    while True:
        pass


def ask_to_be_killed():
    """Lets the job beside (killer.py) kill this process."""
    path = os.path.join(os.environ["TMPDIR"], "kill-me")
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    time.sleep(30)


@contextlib.contextmanager
def group_of(controller, limits):
    """A cgroup (v1) with those files written, as far as the kernel has them; gone afterwards."""
    path = f"/sys/fs/cgroup/{controller}/dlprobe-corpus-{os.getpid()}"
    os.mkdir(path)
    try:
        for name, value in limits.items():
            with contextlib.suppress(OSError), open(f"{path}/{name}", "w", encoding="ascii") as file:
                file.write(str(value))
        yield path
    finally:
        for _ in range(100):
            try:
                os.rmdir(path)
                break
            except OSError:
                time.sleep(0.05)


def memory_group(limit_mib):
    return group_of("memory", {"memory.limit_in_bytes": limit_mib * MIB, "memory.memsw.limit_in_bytes": limit_mib * MIB})


def move_into(group, pid):
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(pid))


def run_in(group):
    """For preexec_fn: the child is in that group from its start."""
    return lambda: move_into(group, os.getpid())


def forget_a_timer():
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    time.sleep(30)


# What happens in a worker at one sample.
ENDS = {
    "segfault": lambda: ctypes.string_at(0x10),
    "overflow": overflow,
    "tied": tied_to_parents_thread,
    "timer": forget_a_timer,
    "abort": os.abort,
    "divide": divide_by_zero,
    "illegal": lambda: os.kill(os.getpid(), signal.SIGILL),
    "os-exit": lambda: os._exit(3),
    "sys-exit": lambda: sys.exit(3),
    "sys-exit-0": lambda: sys.exit(0),
    "exception": raise_error,
    "memory-error": too_little_address_space,
    "truncated": truncated_mapping,
    "killed": ask_to_be_killed,
    "terminated": ask_to_be_killed,
    "hung-up": ask_to_be_killed,
    "cpu-limit": burn_cpu,
    "cpu-limit-hard": burn_cpu,
    "fill": lambda: fill(600),
    "child-fails": lambda: subprocess.call(["false"]),
}
