"""What the tests of the command line share: running dlprobe, and private /dev/shm mounts."""

import contextlib
import json
import os
import subprocess
import sys
import time

DLPROBE = os.environ["DLPROBE"]
HAS_LOADER = bool(os.environ.get("DLPROBE_REFERENCE_LOADER"))
TIMEOUT = 120


def dlprobe(*arguments, **options):
    """Runs dlprobe and returns the finished process, its streams as bytes."""
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([DLPROBE, *map(str, arguments)], timeout=TIMEOUT, check=False, **options)


def report_of(*arguments, **options):
    """The JSON report of a run that must give one."""
    done = dlprobe(arguments[0], "--json", *arguments[1:], **options)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"no report, exit {done.returncode}: {done.stderr.decode()}") from None


def wait_until(condition):
    """Whether it comes true within a minute."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def can_unshare():
    """Whether this process may make mount namespaces (it has to be root, or in a user namespace)."""
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


NEEDS_UNSHARE = "needs the right to make a mount namespace (CAP_SYS_ADMIN): run the tests as root"


# Where a distribution's PyTorch is.
TORCH_PYTHON = "/usr/bin/python3"
NEEDS_TORCH = f"needs torch for {TORCH_PYTHON}: apt-get install python3-torch"


def has_torch():
    """Whether jobs of a real PyTorch can be run here."""
    return os.path.exists(TORCH_PYTHON) and subprocess.run([TORCH_PYTHON, "-c", "import torch"], capture_output=True,
                                                           timeout=TIMEOUT, check=False).returncode == 0


def in_private_shm(setup, arguments, **options):
    """Runs dlprobe in a mount namespace of its own, after the shell commands `setup`."""
    script = setup + ' && exec "$0" "$@"'
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(["unshare", "-m", "sh", "-c", script, DLPROBE, *map(str, arguments)],
                          capture_output=True, timeout=TIMEOUT, check=False, **options)


def small_shm(size):
    return f"mount -t tmpfs -o size={size} tmpfs /dev/shm"


def children():
    """The pids of this process's children, zombies included."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return file.read().split()


def python_program(text, *arguments):
    """The command line of a Python program given as text."""
    return [sys.executable, "-c", text, *arguments]


# Traces a process, as a debugger does, until the end of its input; its name is "the-debugger".
TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
PR_SET_NAME, PTRACE_SEIZE = 15, 0x4206
libc.prctl(PR_SET_NAME, b"the-debugger")
print(libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), 0, 0), flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def traced(pid):
    """The process (its main thread) is traced by another program in the block."""
    with subprocess.Popen(python_program(TRACER, str(pid)), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:
        try:
            assert tracer.stdout.readline() == b"0\n", "ptrace was refused"
            yield
        finally:
            tracer.stdin.close()


# Two children that have not called execve, of a name that is their first argument if there is one: as torch's
# workers have it, or not. Says its pid when both are there; ends with 7 after a line.
FORKING_JOB = """
import os, sys
ready, go = os.pipe(), os.pipe()
for _ in range(2):
    if os.fork() == 0:
        if sys.argv[1] != "pool":
            with open("/proc/self/comm", "w", encoding="utf-8") as comm: comm.write(sys.argv[1])
        os.close(go[1])
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
for _ in range(2): os.read(ready[0], 1)
print(os.getpid(), flush=True)
sys.stdin.readline()
sys.exit(7)
"""
