"""What a batch system does around a job: `batch_limits.py --wall 5 train.py --epochs 3`."""
import argparse
import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time


@contextlib.contextmanager
def task_group(limit):
    """A cgroup with a limit of tasks, of the kind that the machine has; None without a limit."""
    if limit is None:
        yield None
        return
    base = "/sys/fs/cgroup/pids" if os.path.isdir("/sys/fs/cgroup/pids") else "/sys/fs/cgroup"
    path = f"{base}/job-{os.getpid()}"
    os.mkdir(path)
    with open(f"{path}/pids.max", "w", encoding="ascii") as file:
        file.write(str(limit))
    try:
        yield path
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                os.rmdir(path)
                break
            time.sleep(0.1)


def prepare(group, cpu):
    os.setpgrp()
    if group:
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    if cpu:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))


def command_of(options):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), options.script)
    command = [sys.executable, script, *options.arguments]
    if options.tmp_mib is None:
        return command
    folder = os.path.join(tempfile.gettempdir(), "job")
    os.makedirs(folder, exist_ok=True)
    mount = f'export TMPDIR={folder}; mount -t tmpfs -o size={options.tmp_mib}m tmpfs "$TMPDIR" && exec "$@"'
    return ["unshare", "-m", "sh", "-c", mount, "sh", *command]


def wait(job, wall):
    try:
        return job.wait(wall)
    except subprocess.TimeoutExpired:
        print("job exceeded its time limit", file=sys.stderr, flush=True)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
            os.killpg(job.pid, sign)
            return job.wait(3)
    return job.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wall", type=float)
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--tmp-mib", type=int)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with task_group(options.tasks) as group:
        job = subprocess.Popen(command_of(options), preexec_fn=lambda: prepare(group, options.cpu))
        code = wait(job, options.wall)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
