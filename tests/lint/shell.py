"""Runs shellcheck on every shell script of the tree.

usage: shell.py ROOT
"""

import re
import shutil
import subprocess
import sys

import tree

SHELL = re.compile(r"#!.*\b(ba)?sh\b|# shellcheck shell=")


def scripts(root):
    return [str(name) for name in tree.files(root)
            if name.suffix in ("", ".sh") and SHELL.match(tree.read(root, name))]


def problems(root):
    result = subprocess.run(["shellcheck", "-x", *scripts(root)], cwd=root, capture_output=True, text=True, check=False)
    return [result.stdout + result.stderr] if result.returncode else []


if __name__ == "__main__":
    if not shutil.which("shellcheck"):
        print("shellcheck is not installed: apt-get install shellcheck, or run tools/check")
        sys.exit(77)
    tree.finish(problems(tree.root_from_arguments()))
