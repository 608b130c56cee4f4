#!/usr/bin/env python3
"""clang-tidy on what is shipped: each translation unit of BUILD/compile_commands.json, which with CMAKE_UNITY_BUILD is ten
files whose headers are parsed once; or the files that are named. Exit code: 0 nothing found, 1 something. Standard library only.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
SHIPPED = ("lib", "probes", "reports", "tools")
# They include libtorch: no clang parses its ATen/core/List.h (a vector of an incomplete type) as C++23 with the
# libstdc++ of GCC 12.
NOT_PARSED = re.compile(r"tools/reference_loader/(tensors|trainer)\.cc$")
ARGUMENTS = ["--quiet", "--extra-arg-before=-w"]  # the compiler has warned
# They take four times as long as all others together, and look at main files alone unless they are told.
PATHS = ["--extra-arg-before=-Xclang", "--extra-arg-before=-analyzer-opt-analyze-headers"]
NO_PATHS = ["--checks=-clang-analyzer-*"]


def files_of(unit):
    """What a unity file is made of."""
    return re.findall(r'^#include "(.*)"$', unit.read_text(encoding="utf-8"), re.MULTILINE)


def units_of(build):
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for unit in sorted({Path(command["file"]) for command in commands}):
        is_made = unit.is_relative_to(build)
        is_of_files = unit.parent.name == "Unity"
        if unit.relative_to(build if is_made else SOURCE).parts[0] not in SHIPPED or is_made != is_of_files:
            continue
        files = files_of(unit) if is_of_files else [str(unit)]
        if any(map(NOT_PARSED.search, files)):
            yield from (file for file in files if not NOT_PARSED.search(file))
        else:
            yield str(unit)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", action="store_true", help="the path-sensitive checks (clang-analyzer), too")
    parser.add_argument("build", type=Path)
    parser.add_argument("program", help="clang-tidy")
    parser.add_argument("files", nargs="*", help="instead of all; with --paths")
    options = parser.parse_args()
    build = options.build.resolve()
    units = options.files or list(units_of(build))
    arguments = ARGUMENTS + (PATHS if options.paths or options.files else NO_PATHS)

    def check(unit):
        return subprocess.run([options.program, "-p", str(build), *arguments, unit], capture_output=True, text=True, check=False)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, (unit, done) in enumerate(zip(units, pool.map(check, units)), 1):
            print(f"[{number}/{len(units)}] clang-tidy {os.path.relpath(unit, SOURCE)}", flush=True)
            if done.returncode != 0:
                failed += 1
                print(done.stdout + done.stderr, flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
