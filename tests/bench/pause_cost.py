"""For how long a look at its stacks pauses a running process, beside other tools in the same run.

usage: pause_cost.py SNAPSHOT_ONCE GAP_METER [THREADS...]

The target is a Python process of which one thread runs native code and measures its own pauses; the others
wait. A row "nobody looks" is what the scheduler alone does to that thread: run it on a machine with nothing else to
do. Other tools are those found in PATH: gdb, eu-stack, pystack, py-spy. Asserts nothing.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = 7
GOALS_MS = {5: 0.5, 20: 1, 65: 5, 200: 8}
TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pause_target.py")


def tools(snapshot_once, pid):
    """Name and command of each; None: nobody looks."""
    yield "nobody looks", None
    yield "dlprobe", [snapshot_once, pid]
    yield "dlprobe, were all threads to be stopped", [snapshot_once, pid, "all"]
    peers = {
        "py-spy dump": ["py-spy", "dump", "--pid", pid],
        "py-spy dump --native": ["py-spy", "dump", "--native", "--pid", pid],
        "pystack remote": ["pystack", "remote", pid],
        "pystack remote --native-all": ["pystack", "remote", "--native-all", pid],
        "eu-stack": ["eu-stack", "-p", pid],
        "gdb, thread apply all bt": ["gdb", "-p", pid, "-batch", "-ex", "thread apply all bt"],
    }
    for name, command in peers.items():
        if shutil.which(command[0]):
            yield name, command
        else:
            print(f"  ({command[0]} is not installed)")


def longest_pause(target):
    target.stdin.write("?\n")
    target.stdin.flush()
    return int(target.stdout.readline()) / 1e6


def measure(target, command):
    rounds = 3 if command and command[0] == "gdb" else ROUNDS
    gaps = []
    for _ in range(rounds):
        longest_pause(target)
        if command is None:
            time.sleep(0.1)
        else:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        gaps.append(longest_pause(target))
    return gaps


def look(snapshot_once, gap_meter, threads):
    command = [sys.executable, TARGET, gap_meter, str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        longest_pause(target)  # it runs
        goal = GOALS_MS.get(threads)
        print(f"{threads} threads" + (f" (goal: {goal} ms)" if goal else ""))
        ours = None
        for name, tool in tools(snapshot_once, str(target.pid)):
            gaps = measure(target, tool)
            median = statistics.median(gaps)
            if name == "dlprobe":
                ours = median
            ratio = f", {median / ours:.0f} x dlprobe" if ours and name != "dlprobe" else ""
            print(f"  {name}: {median:.2f} ms (least {min(gaps):.2f}, most {max(gaps):.2f}){ratio}")
        target.kill()


def main():
    for threads in [int(text) for text in sys.argv[3:]] or GOALS_MS:
        look(sys.argv[1], os.path.abspath(sys.argv[2]), threads)


if __name__ == "__main__":
    main()
