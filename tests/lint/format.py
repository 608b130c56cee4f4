"""Checks that clang-format-19 would change nothing; with --fix, changes it.

usage: format.py ROOT [--fix]
"""

import shutil
import subprocess
import sys

import tree

CLANG_FORMAT = "clang-format-19"


def problems(root, fix=False):
    names = [str(name) for name in tree.files(root, *tree.CPP)]
    if not names:
        return []
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    result = subprocess.run([CLANG_FORMAT, *mode, *names], cwd=root, capture_output=True, text=True, check=False)
    return [result.stderr] if result.returncode else []


if __name__ == "__main__":
    if not shutil.which(CLANG_FORMAT):
        print(f"{CLANG_FORMAT} is not installed: apt-get install {CLANG_FORMAT}, or run tools/check")
        sys.exit(77)
    tree.finish(problems(tree.root_from_arguments(), "--fix" in sys.argv))
