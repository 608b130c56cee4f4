"""Adds up what ctest wrote with --output-junit: skipped tests with their reasons, the slowest twenty, then one line.

A test of NAME.xml that is in NAME-alone.xml, too, was run again without others beside it: that counts.

With --strict a test that was skipped for another reason than a missing GPU counts as failed: CI runs
on machines that can run everything else.
"""

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree

# The only reasons to skip that a machine of CI may have.
ALLOWED_REASON = re.compile(r"\bno (GPU|CUDA device)\b")

LAST_LINES = 25
SLOWEST = 20


def was_skipped(case):
    """Whether the test itself said so. ctest also calls a test skipped whose program does not exist."""
    mark = case.find("skipped")
    return mark is not None and mark.get("message", "").startswith("SKIP_")


# A line of unittest's -v; it starts with the test's name or its doc string. One ctest test can hold
# several of them, and passes though some were skipped.
UNITTEST_SKIP = re.compile(r"^(.*?) \.\.\. skipped ['\"](.*)['\"]$", re.MULTILINE)


def inner_skips(case):
    """(name, reason) of each Python test that was skipped inside a ctest test that passed."""
    return UNITTEST_SKIP.findall(case.findtext("system-out") or "")


def reason_of(case):
    """Why a test was skipped: what it printed, without the noise of its framework."""
    output = case.findtext("system-out") or ""
    # GoogleTest prints "FILE:LINE: Skipped" and the reason below it; other tests print only the reason.
    found = re.search(r": Skipped\n(.*?)\n\s*\n?\[  SKIPPED \]", output, re.DOTALL)
    text = " ".join((found.group(1) if found else output).split())
    return text.removeprefix("skipped: ") or "no reason given"


def last_words(case):
    """What a failed test printed at its end, where the reason mostly stands: a log may show no more than this."""
    lines = (case.findtext("system-out") or "").rstrip().splitlines()
    return "".join(f"    | {line}\n" for line in lines[-LAST_LINES:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()

    passed, failed, skipped, durations = 0, [], [], []
    cases = [(path, case) for path in arguments.files for case in ElementTree.parse(path).getroot().iter("testcase")]
    again = {case.get("name") for path, case in cases if path.endswith("-alone.xml")}

    def count_skip(name, reason):
        refused = arguments.strict and not ALLOWED_REASON.search(reason)
        (failed if refused else skipped).append((name, f"skipped: {reason}"))

    for path, case in cases:
        name = case.get("name")
        durations.append((float(case.get("time", 0)), name))
        if name in again and not path.endswith("-alone.xml"):
            continue
        for inner_name, reason in inner_skips(case):
            count_skip(f"{name}: {inner_name}", reason)
        if case.get("status") == "run":
            passed += 1
        elif was_skipped(case):
            count_skip(name, reason_of(case))
        else:
            failed.append((name, f"failed\n{last_words(case)}".rstrip()))
    for reason in sorted({reason for _, reason in skipped}):
        names = [name for name, its_reason in skipped if its_reason == reason]
        print(f"{reason}\n    {len(names)}: {', '.join(names)}")
    print("slowest: " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(durations, reverse=True)[:SLOWEST]))
    if again:
        print("failed beside other tests, run again alone: " + ", ".join(sorted(again)))
    for name, reason in failed:
        print(f"FAILED {name}: {reason}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
