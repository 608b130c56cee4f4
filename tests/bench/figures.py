"""The figures that dlprobe promises, measured: start, forecast against measured peak, effect of watching.

usage: figures.py DLPROBE REFERENCE_LOADER [start] [help] [forecast] [watching]

Not a test: it asserts nothing about time. Each figure is a ratio against a named peer in the same run.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

ROUNDS = 20
PTRACE_CONT, PTRACE_SETOPTIONS, PTRACE_O_TRACEEXIT = 7, 0x4200, 0x40  # <sys/ptrace.h>
SHAPES = ["3x224x224", "3x64x64", "1x512x384"]


def timed(command):
    """Wall seconds and peak resident bytes of one run.

    The peak that wait4 gives is that of the larger of the program and of this interpreter, which it was forked
    from; so the kernel is asked for VmHWM while the program, stopped at its exit, still has its memory.
    """
    started = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - started
    script = "import ctypes, os, sys; ctypes.CDLL(None).ptrace(0, 0, None, None); os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen([sys.executable, "-c", script, *command], stdout=subprocess.DEVNULL) as traced:
        libc = ctypes.CDLL(None, use_errno=True)
        os.waitpid(traced.pid, 0)  # stopped by its execve
        libc.ptrace(PTRACE_SETOPTIONS, traced.pid, None, ctypes.c_void_p(PTRACE_O_TRACEEXIT))
        libc.ptrace(PTRACE_CONT, traced.pid, None, None)
        os.waitpid(traced.pid, 0)  # at its exit
        with open(f"/proc/{traced.pid}/status", encoding="ascii") as status:
            peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
        libc.ptrace(PTRACE_CONT, traced.pid, None, None)
        traced.wait()
    return seconds, peak


def start(dlprobe, _loader):
    """`dlprobe --version` against /bin/true, in turns."""
    ours, peer = [], []
    for _ in range(ROUNDS):
        ours.append(timed([dlprobe, "--version"]))
        peer.append(timed(["/bin/true"]))
    seconds, bytes_ = (statistics.median(column) for column in zip(*ours))
    peer_seconds, peer_bytes = (statistics.median(column) for column in zip(*peer))
    print(f"start: dlprobe --version {seconds * 1e3:.1f} ms, {bytes_ / 2**20:.1f} MiB; /bin/true "
          f"{peer_seconds * 1e3:.1f} ms, {peer_bytes / 2**20:.1f} MiB (goal: 10 ms, 15 MB)")


def help_(dlprobe, _loader):
    """`--help` of the subcommand that takes longest, by the processor's time: that of other programs does not count."""
    listed = json.loads(subprocess.run([dlprobe, "list", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    medians = {}
    for name in [probe["name"] for probe in listed["probes"]] + ["run", "attach", "gate", "tune", "doctor", "explain"]:
        seconds = []
        for _ in range(ROUNDS):
            with subprocess.Popen([dlprobe, name, "--help"], stdout=subprocess.DEVNULL) as process:
                usage = os.wait4(process.pid, 0)[2]
                process.returncode = 0
            seconds.append(usage.ru_utime + usage.ru_stime)
        medians[name] = statistics.median(seconds)
    slowest = max(medians, key=medians.get)
    print(f"help: dlprobe {slowest} --help {medians[slowest] * 1e3:.1f} ms of CPU, the slowest of {len(medians)} (goal: 10 ms)")


def report(dlprobe, *options):
    done = subprocess.run([dlprobe, "shm", "--json", *options], stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)


def forecast(dlprobe, _loader):
    """Measured peak of /dev/shm over the forecast, for each shape, start method and sharing strategy."""
    worst = 0.0
    for shape in SHAPES:
        for run in report(dlprobe, "--sample-shape", shape)["runs"]:
            ratio = run["shm_peak_over_forecast"]
            worst = max(worst, abs(ratio - 1))
            plan = run["plan"]
            print(f"forecast: {shape:10} {plan['start_method']:10} {plan['sharing_strategy']:15} "
                  f"measured / forecast {ratio:.3f}")
    print(f"forecast: worst deviation {worst:.1%} (goal: 10 %)")


def rate_of(command, read_fd):
    """images/s that the loader states on its progress descriptor."""
    with subprocess.Popen(command, pass_fds=[read_fd[1]], stdout=subprocess.DEVNULL) as process:
        os.close(read_fd[1])
        with os.fdopen(read_fd[0]) as lines:
            done = [json.loads(line) for line in lines][-1]
        process.wait()
    return done["images"] / done["seconds"]


def watching(dlprobe, loader):
    """The reference loader alone against the same loader under `dlprobe shm --`, in turns."""
    options = ["--workers", "2", "--batches", "60", "--step", "none"]
    alone, watched = [], []
    for _ in range(7):
        for prefix, rates in ([[], alone], [[dlprobe, "shm", "-q", "-o", "/dev/null", "--"], watched]):
            ends = os.pipe()
            rates.append(rate_of([*prefix, loader, *options, "--progress-fd", str(ends[1])], ends))
    ratio = statistics.median(w / a for w, a in zip(watched, alone))
    print(f"watching: {statistics.median(watched):.0f} images/s watched, {statistics.median(alone):.0f} alone, "
          f"ratio {ratio:.3f} (pairs {min(w / a for w, a in zip(watched, alone)):.3f} to "
          f"{max(w / a for w, a in zip(watched, alone)):.3f}; goal: 0.99)")


def main():
    dlprobe, loader, *wanted = sys.argv[1:]
    os.environ["DLPROBE_REFERENCE_LOADER"] = loader
    for figure in (start, help_, forecast, watching):
        if not wanted or figure.__name__.rstrip("_") in wanted:
            figure(dlprobe, loader)


if __name__ == "__main__":
    main()
