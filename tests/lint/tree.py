"""What the lints share: the files of the repository, C++ without comments, and how to complain."""

import re
import subprocess
import sys
from pathlib import Path

CPP = (".cc", ".h")


def files(root, *suffixes):
    """Every file that git tracks or would track (no build outputs), relative to `root`, sorted.

    Outside git (a tarball) all files but those below build/.
    """
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        names = [Path(name) for name in listing.stdout.split("\0") if name]
    else:
        names = [path.relative_to(root) for path in Path(root).rglob("*")]
        names = [name for name in names if name.parts[0] not in ("build", ".git")]
    names = sorted(name for name in set(names) if (root / name).is_file())
    return [name for name in names if not suffixes or name.suffix in suffixes]


def read(root, name):
    """The text of a file; empty for one that is not text."""
    try:
        return (root / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def code_only(text):
    """C++ with comments and literals blanked out; line numbers stay. #include lines stay whole."""
    def blank(match):
        line_start = text.rfind("\n", 0, match.start()) + 1
        if text[line_start:match.start()].lstrip().startswith("#include"):
            return match.group()
        return "\n" * match.group().count("\n") or " "
    return _TOKEN.sub(blank, text)


def finish(problems):
    """Prints the problems and leaves with the status that ctest expects."""
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)" if problems else "ok")
    sys.exit(1 if problems else 0)


def root_from_arguments():
    """The repository that is looked at: the only argument."""
    return Path(sys.argv[1]).resolve()
