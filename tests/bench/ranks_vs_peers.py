"""What dlprobe, py-spy on every process and PyTorch's Flight Recorder say of the same incidents of ranks, and how soon.

usage: ranks_vs_peers.py DLPROBE TORCH_PYTHON [RANKS [WORKERS [KIND ...]]]

Each incident of rank_incident.py is looked at once it stands still: `dlprobe attach --for 0s` (one look), `dlprobe
attach` (its verdict), `py-spy dump` of each rank and worker, and the analyser of torch 2.13 on the recorders' dumps,
which the job itself has to write. Prints seconds, the number of lines, and the first lines of what each says. Asserts
nothing.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
KINDS = ("upload", "save", "wander", "log", "uneven", "die", "read_pipe", "wait_for_lock")
STANDS_FOR = 40.0  # seconds before anybody looks, as somebody who was called does


def processes_of(root):
    pids = [root]
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            children = pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
            pids += [int(child) for child in children.split()]
    return pids[1:]


def said(name, commands, keep):
    started = time.monotonic()
    lines = []
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        lines += done.stdout.splitlines()
    print(f"  {name}: {time.monotonic() - started:.2f} s, {len(lines)} lines")
    for line in lines[:keep]:
        print(f"    | {line}")


def look(dlprobe, python, launcher, folder):
    pids = processes_of(launcher)
    print(f"  ({len(pids)} processes)")
    said("dlprobe attach --for 0s", [[dlprobe, "attach", "--for", "0s", str(launcher)]], 0)
    said("dlprobe attach", [[dlprobe, "attach", str(launcher)]], 12)
    if shutil.which("py-spy"):
        said("py-spy dump, each", [["py-spy", "dump", "--pid", str(pid)] for pid in pids], 0)
    else:
        print("  (py-spy is not installed)")
    analyser = "from torch.distributed.flight_recorder.fr_trace import main; main()"
    said("Flight Recorder", [[python, "-W", "ignore", "-c", analyser, str(folder), "--prefix", "dump_"]], 25)


def incident(dlprobe, python, kind, ranks, workers):
    print(kind)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlp-ranks."))
    command = [python, str(HERE / "rank_incident.py"), kind, str(folder), str(ranks), str(workers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as launcher:
        while len(list(folder.glob("standing.*"))) < ranks - (kind == "uneven"):
            time.sleep(0.1)
        time.sleep(STANDS_FOR)
        look(dlprobe, python, launcher.pid, folder)
    shutil.rmtree(folder)


def main():
    dlprobe, python = sys.argv[1:3]
    ranks, workers = (int(text) for text in (sys.argv[3:] + ["4", "2"][max(0, len(sys.argv) - 3):])[:2])
    for kind in sys.argv[5:] or KINDS:
        incident(dlprobe, python, kind, ranks, workers)


if __name__ == "__main__":
    main()
