"""The static pass over programs that nobody wrote for it: the interpreter's own test scripts, and files of installed
packages. No crash, no certain finding, an answer for each within the limit.

usage: everything_test.py [--most N]    N files of each kind; all of the test scripts and 300 others by default
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import sysconfig

DLPROBE = os.environ["DLPROBE"]
LIMIT = 20  # seconds for one program; dlprobe ends the interpreter then
SKIPPED = 77


def scripts_of(folder):
    found = glob.glob(os.path.join(glob.escape(folder), "**", "*.py"), recursive=True)
    return sorted(path for path in found if os.path.isfile(path))


def spread(paths, count):
    """`count` of them, evenly."""
    return paths if len(paths) <= count else [paths[i * len(paths) // count] for i in range(count)]


def programs(most):
    own = scripts_of(os.path.join(sysconfig.get_path("stdlib"), "test"))
    installed = []
    for name in ("purelib", "platlib"):
        installed += scripts_of(sysconfig.get_path(name))
    installed += scripts_of("/usr/lib/python3/dist-packages")
    return spread(own, most or len(own)), spread(sorted(set(installed)), most or 300)


def problem_of(path):
    """What is wrong with the answer for that program; None: nothing."""
    command = [DLPROBE, "spawn-recursion", "--static", "--json", "--", sys.executable, path]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {LIMIT} s"
    if done.returncode not in (0, 3):
        return f"exit code {done.returncode}: {done.stderr.decode(errors='replace')}"
    report = json.loads(done.stdout)
    certain = [finding["code"] for finding in report["findings"] if finding["confidence"] != "possible"]
    return f"more than possible: {certain}" if certain else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=0)
    own, installed = programs(parser.parse_args().most)
    bad = 0
    for path in own + installed:
        problem = problem_of(path)
        if problem:
            bad += 1
            print(f"{path}: {problem}")
    print(f"{len(own)} test scripts of the interpreter and {len(installed)} installed files, {bad} with a problem")
    if not own and len(installed) < 300:
        print("needs an interpreter with its test scripts, or 300 installed Python files")
        return SKIPPED
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
