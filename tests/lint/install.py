"""`cmake --install` puts everything in place, and what it installs works from there.

usage: install.py ROOT BUILD_DIRECTORY CMAKE [PROGRAM...]   the programs that must be installed
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tree

# dlprobe starts on a machine that is starving: none of these may be among its libraries.
FORBIDDEN_LIBRARIES = re.compile(r"\blib(torch|c10|opencv|caffe2)\w*", re.IGNORECASE)

# Where each shell looks for them.
COMPLETIONS = ("bash-completion/completions/dlprobe", "zsh/site-functions/_dlprobe",
               "fish/vendor_completions.d/dlprobe.fish")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def problems(root, build, cmake, programs):
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder)
        result = run(cmake, "--install", build, "--prefix", prefix)
        if result.returncode:
            return [result.stdout + result.stderr]
        found = [f"bin/{name}: not installed" for name in programs if not (prefix / "bin" / name).is_file()]
        names = {path.name for path in prefix.rglob("*") if path.is_file()}
        pages = [path.name for path in (root / "docs/findings").glob("*.md")]
        found += [f"{name}: not installed" for name in ["dlprobe.1", "LICENSE", "CHANGELOG.md", *pages] if name not in names]
        found += [f"share/{name}: not installed, or empty" for name in COMPLETIONS
                  if "dlprobe" in programs and not ((prefix / "share" / name).is_file()
                                                    and (prefix / "share" / name).stat().st_size)]
        version = run(prefix / "bin/dlprobe", "--version")
        if version.returncode or not re.match(r"dlprobe \d+\.\d+\.\d+\n", version.stdout):
            found.append(f"bin/dlprobe --version: status {version.returncode}: {version.stdout}{version.stderr}")
        libraries = run("ldd", prefix / "bin/dlprobe").stdout
        found += [f"bin/dlprobe is linked with {match.group()}" for match in FORBIDDEN_LIBRARIES.finditer(libraries)]
        return found


if __name__ == "__main__":
    tree.finish(problems(tree.root_from_arguments(), *sys.argv[2:4], sys.argv[4:]))
