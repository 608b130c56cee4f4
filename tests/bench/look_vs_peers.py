"""How long a look at a hung tree takes, beside other tools over the same pids in the same run.

usage: look_vs_peers.py DLPROBE TORCH_PYTHON [WORKERS [ROUNDS]]

The tree is that of hung_tree.py. Each tool takes its turn in every round, each time in a new process. The peers look at
one process, so they are started once for each; those found in PATH are asked. "names" is the share of frames that have
one, of one look at the trainer. Asserts nothing.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HUNG_TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hung_tree.py")


def seconds_of(commands):
    started = time.monotonic()
    for command in commands:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.monotonic() - started


def tools(dlprobe, pids):
    """Name and commands: the first two are ours, the others of peers."""
    root = str(pids[0])
    yield "dlprobe attach --for 0s -f json", [[dlprobe, "attach", "--for", "0s", "--json", root]]
    yield "dlprobe stacks --python", [[dlprobe, "stacks", "--python", root]]
    peers = {
        "py-spy dump": ["py-spy", "dump", "--pid"],
        "py-spy dump --native": ["py-spy", "dump", "--native", "--pid"],
        "pystack remote --native-all": ["pystack", "remote", "--native-all"],
        "eu-stack": ["eu-stack", "-p"],
    }
    for name, command in peers.items():
        if shutil.which(command[0]):
            yield name, [[*command, str(pid)] for pid in pids]
        else:
            print(f"  ({command[0]} is not installed)")


def share_of_names(dlprobe, pid):
    """Of frames, ours (those of the interpreter's loop are Python's) and eu-stack's."""
    look = subprocess.run([dlprobe, "stacks", "--only", "--json", str(pid)], stdout=subprocess.PIPE, check=True)
    frames = [frame for process in json.loads(look.stdout)["processes"] for thread in process["threads"]
              for frame in thread["stack"]]
    ours = sum(1 for frame in frames if frame["function"])
    print(f"names, dlprobe: {ours} of {len(frames)} frames, {100 * ours / max(len(frames), 1):.1f} %")
    if not shutil.which("eu-stack"):
        return
    theirs = subprocess.run(["eu-stack", "-p", str(pid)], stdout=subprocess.PIPE, text=True, check=False).stdout
    lines = re.findall(r"^#\d+ +0x\w+(.*)$", theirs, re.MULTILINE)
    named = sum(1 for rest in lines if rest.strip())
    print(f"names, eu-stack: {named} of {len(lines)} frames, {100 * named / max(len(lines), 1):.1f} %")


def main():
    dlprobe, python = sys.argv[1:3]
    workers, rounds = (int(text) for text in (sys.argv[3:] + ["16", "5"])[:2])
    with subprocess.Popen([python, "-W", "ignore", HUNG_TREE, str(workers)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as trainer:
        trainer.stdout.readline()
        with open(f"/proc/{trainer.pid}/task/{trainer.pid}/children", encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        pids = [trainer.pid, *children]
        chosen = list(tools(dlprobe, pids))
        measured = {name: [] for name, _ in chosen}
        for _ in range(rounds):
            for name, commands in chosen:
                measured[name].append(seconds_of(commands))
        ours = [statistics.median(measured[name]) for name, _ in chosen[:2]]
        print(f"{len(pids)} processes, median of {rounds} rounds (goal: 150 ms; 40 x faster than native peers)")
        for name, _ in chosen:
            median = statistics.median(measured[name])
            print(f"  {name}: {1e3 * median:.0f} ms (least {1e3 * min(measured[name]):.0f}), "
                  f"{median / ours[0]:.1f} x attach, {median / ours[1]:.1f} x stacks --python")
        share_of_names(dlprobe, trainer.pid)
        for pid in pids:
            os.kill(pid, 9)


if __name__ == "__main__":
    main()
