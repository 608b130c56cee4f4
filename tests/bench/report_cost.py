#!/usr/bin/env python3
"""What gates and reports cost: gate, --help of every subcommand, merge of 10 000 nodes, merge of a hung job on 1024 nodes, every
format of a large incident.

    report_cost.py [--incident MAKE_INCIDENT] [--loader REFERENCE_LOADER] DLPROBE [gate] [help] [merge] [ranks] [formats] [paint]

Each figure is printed beside a floor of the same run: /bin/true for a start, `cat` of the same files for merging, reading and
writing the same JSON by Python for a format. Not run by ctest: figures belong to a quiet machine.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))

ROUNDS = 5
FORMATS = ("human", "json", "html", "markdown", "junit", "sarif", "prometheus", "nagios", "npd", "github", "gitlab", "jsonl", "dot")
NODES = 10_000


def cost_of(command, rounds=ROUNDS, **options):
    """Wall and CPU seconds, the medians of some runs."""
    costs = []
    for _ in range(rounds):
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options) as child:
            _pid, _status, usage = os.wait4(child.pid, 0)
            child.returncode = 0
        costs.append((time.monotonic() - began, usage.ru_utime + usage.ru_stime))
    return tuple(statistics.median(column) for column in zip(*costs))


def line(name, cost, floor, floor_name, goal):
    print(f"{name}: {cost[0] * 1e3:.1f} ms (CPU {cost[1] * 1e3:.1f}); {floor_name} {floor[0] * 1e3:.1f} ms (CPU {floor[1] * 1e3:.1f}), "
          f"ratio {cost[0] / floor[0]:.1f} (goal: {goal})", flush=True)


def report_of(dlprobe, *arguments):
    done = subprocess.run([dlprobe, *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return json.loads(done.stdout)


def gate(options):
    floor = cost_of(["/bin/true"])
    quick = [options.dlprobe, "gate", "--level", "quick"]
    line("gate --level quick", cost_of(quick), floor, "/bin/true", "1000 ms")
    without = dict(os.environ, PATH="/nowhere")
    line("  without an interpreter to look at", cost_of(quick, env=without), floor, "/bin/true", "-")
    if not options.loader:
        return
    os.environ["DLPROBE_REFERENCE_LOADER"] = options.loader
    loader = [options.loader, "--help"]
    line("gate", cost_of([options.dlprobe, "gate"], 3), cost_of(loader), "the reference loader's --help", "20 000 ms")
    report = report_of(options.dlprobe, "gate")
    for run in report["runs"]:
        loader = run.get("loader", {})
        print(f"  loader: {json.dumps({key: loader[key] for key in loader if key.endswith('_s')})}")


def starts(options):
    floor = cost_of(["/bin/true"], 20)
    for name in ("shm", "fd", "deadlock", "spawn-recursion", "memory", "stacks", "tune", "gate", "run", "attach", "report", "replay",
                 "explain", "list", "schema", "doctor", "config", "completion"):
        command = [options.dlprobe, name, "--help"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            line(f"{name} --help", cost_of(command, 20), floor, "/bin/true", "10 ms")


def merge(options):
    report = report_of(options.dlprobe, "gate", "--level", "quick")
    with tempfile.TemporaryDirectory() as folder:
        for index in range(NODES):
            report["host"]["name"] = report["host"]["node"] = f"node{index:05}"
            report["report_id"] = f"{index:032x}"
            (Path(folder) / f"{index}.json").write_text(json.dumps(report))
        floor = cost_of(["sh", "-c", f"find {folder} -name '*.json' -exec cat {{}} +"], 3)
        taken = cost_of([options.dlprobe, "report", "merge", folder, "--json"], 1)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    line(f"merge of {NODES} reports", taken, floor, "cat of them", "10 000 ms")
    print(f"  largest child so far: {peak:.0f} MiB (goal: 500 MB)")


# A node of a job of 8 ranks with 4 workers each, of which rank 5 sleeps. Says when all stand.
JOB = """
import os, sys, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
dist.init_process_group("gloo")
def upload():
    time.sleep(600)
for step, (batch,) in enumerate(DataLoader(TensorDataset(torch.rand(8000, 8)), batch_size=4, num_workers=4)):
    if step == 9:
        print("ready", flush=True)
        if dist.get_rank() == 5: upload()
    dist.all_reduce(batch.sum())
"""


def look_at_a_node(dlprobe):
    """Its report, as `dlprobe attach` makes it."""
    environment = dict(os.environ, WORLD_SIZE="8", LOCAL_WORLD_SIZE="8", MASTER_ADDR="127.0.0.1", MASTER_PORT="29513",
                       OMP_NUM_THREADS="1")
    ranks = [subprocess.Popen(["/usr/bin/python3", "-c", JOB], env=dict(environment, RANK=str(rank)), stdout=subprocess.PIPE,
                              text=True) for rank in range(8)]
    try:
        for rank in ranks:
            rank.stdout.readline()
        return report_of(dlprobe, "attach", str(ranks[0].pid), "--for", "12s")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def ranks(options):
    """A hung job of 8192 ranks: rank 4133 sleeps, all others wait. One real look, as that of each of 1024 nodes."""
    nodes = 1024
    report = look_at_a_node(options.dlprobe)
    assert len(report["ranks"]) == 8, report["ranks"]
    late = next(rank for rank in report["ranks"] if rank["doing"] == "sleeps")
    waits = next(rank for rank in report["ranks"] if rank["doing"] == "waits for ranks")
    doing = {key: late.pop(key) for key in ("doing", "stands", "at")}
    others = {key: waits[key] for key in ("doing", "stands", "at", "meeting", "operation")}
    with tempfile.TemporaryDirectory() as folder:
        for index in range(nodes):
            report["host"]["name"] = report["host"]["node"] = f"node{index:05}"
            report["report_id"] = f"{index:032x}"
            late.update(others)
            if index == 4133 // 8:
                late.update(doing)
            for rank in report["ranks"]:
                rank.update(rank=index * 8 + rank["rank"] % 8, job="10.0.0.1:29500", world_size=8 * nodes)
            (Path(folder) / f"{index}.json").write_text(json.dumps(report))
        size = sum(each.stat().st_size for each in Path(folder).iterdir())
        print(f"{nodes} reports of 8 ranks and {len(report['processes'])} processes, {size / nodes / 1e3:.0f} kB each")
        read = "import json, pathlib, sys\nfor each in pathlib.Path(sys.argv[1]).iterdir(): json.loads(each.read_bytes())"
        floor = cost_of([sys.executable, "-c", read, folder], 1)
        command = [options.dlprobe, "report", "merge", folder, "-q"]
        taken = cost_of(command, 1)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
            _pid, _status, usage = os.wait4(child.pid, 0)
            child.returncode = 0
        merged = report_of(options.dlprobe, "report", "merge", folder)
    line(f"merge of a job of {8 * nodes} ranks", taken, floor, "json.loads of them", "10 000 ms")
    print(f"  at its peak: {usage.ru_maxrss / 1024:.0f} MiB (goal: 500 MiB)")
    print(f"  {merged['summary']['headline'][:160]}")


def incident(options, folder):
    recording, report = Path(folder) / "incident.dlrec", Path(folder) / "incident.json"
    subprocess.run([options.incident, recording], check=True)
    subprocess.run([options.dlprobe, "replay", recording, "-f", f"json={report}", "-q"], check=False, stdout=subprocess.DEVNULL)
    return report


def formats(options):
    with tempfile.TemporaryDirectory() as folder:
        report = incident(options, folder)
        print(f"incident: {report.stat().st_size / 1e6:.2f} MB of JSON")
        floor = cost_of([sys.executable, "-c", "import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))", report])
        for name in FORMATS:
            target = Path(folder) / name
            cost = cost_of([options.dlprobe, "report", "render", report, "-f", f"{name}={target}", "-q"])
            line(f"render {name}", cost, floor, "Python reads and writes it", f"200 ms; {target.stat().st_size / 1e6:.2f} MB")


def paint(options):
    from browser import Browser
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page, empty = Path(folder) / "incident.html", Path(folder) / "empty.html"
        subprocess.run([options.dlprobe, "report", "render", incident(options, folder), "-f", f"html={page}", "-q"], check=False)
        empty.write_text("<!doctype html><title>x</title><p>x")

        def first_paint(path):
            browser.size(1440, 900)
            browser.open(path)
            return (browser.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done("
                                 "(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime || performance.now()))))") / 1e3, 0)

        first_paint(empty)
        line("first paint of the incident's page", first_paint(page), first_paint(empty), "an empty page", "1000 ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlprobe")
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--incident")
    parser.add_argument("--loader")
    options = parser.parse_args()
    parts = {"gate": gate, "help": starts, "merge": merge, "ranks": ranks}
    if options.incident:
        parts.update(formats=formats, paint=paint)
    for name, part in parts.items():
        if not options.parts or name in options.parts:
            part(options)


if __name__ == "__main__":
    main()
