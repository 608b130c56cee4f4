#!/usr/bin/env python3
"""What gates and reports cost: gate, --help of every subcommand, merge of 10 000 nodes, every format of a large incident.

    report_cost.py [--incident MAKE_INCIDENT] [--loader REFERENCE_LOADER] DLPROBE [gate] [help] [merge] [formats] [paint]

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
    parts = {"gate": gate, "help": starts, "merge": merge}
    if options.incident:
        parts.update(formats=formats, paint=paint)
    for name, part in parts.items():
        if not options.parts or name in options.parts:
            part(options)


if __name__ == "__main__":
    main()
