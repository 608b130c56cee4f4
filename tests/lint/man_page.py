"""The man page names every subcommand and option that --help prints, and no others; mandoc finds no fault.

usage: man_page.py ROOT DLPROBE
"""

import re
import shutil
import subprocess
import sys

import tree

PAGE = "docs/man/dlprobe.1"


def help_of(dlprobe, *command):
    result = subprocess.run([dlprobe, *command, "--help-all"], capture_output=True, text=True, timeout=60, check=True)
    return result.stdout


def options_in(help_text):
    """Long and short options in the option column of a help text, not those its prose mentions."""
    names = re.findall(r"^ {2,10}(-[A-Za-z]\b)?,?[ ]*(--[a-z][\w-]*)?", help_text, re.MULTILINE)
    return {name for pair in names for name in pair if name}


def subcommands_in(help_text):
    """The names in the lists of subcommands: rows that begin with a small letter. Examples begin with dlprobe."""
    return [name for name in re.findall(r"^  ([a-z][\w-]*) {2,}\S", help_text, re.MULTILINE) if name != "dlprobe"]


def options_of_page(text):
    return {"-" + name for name in re.findall(r"\bFl (-?[A-Za-z][\w-]*)", text.replace("\\-", "-"))}


def check_mandoc(root):
    if not shutil.which("mandoc"):
        return
    # "style" remarks differ from version to version.
    result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", PAGE], cwd=root,
                            capture_output=True, text=True, check=False)
    yield from result.stdout.splitlines()


def problems(root, dlprobe):
    page = tree.read(root, PAGE)
    main_help = help_of(dlprobe)
    subcommands = subcommands_in(main_help)
    found = list(check_mandoc(root))
    if not subcommands:
        found.append(f"{dlprobe} --help lists no subcommands")
    known = options_in(main_help)
    for subcommand in subcommands:
        own_help = help_of(dlprobe, subcommand)
        known |= options_in(own_help)
        for inner in subcommands_in(own_help):
            known |= options_in(help_of(dlprobe, subcommand, inner))
        if not re.search(rf"^\.It (Cm|Nm dlprobe Cm|Ic) {subcommand}\b", page, re.MULTILINE):
            found.append(f"{PAGE}: has no entry for the subcommand {subcommand}")
    in_page = options_of_page(page)
    found += [f"{PAGE}: does not mention {option}" for option in sorted(known - in_page)]
    found += [f"{PAGE}: mentions {option}, which no --help has" for option in sorted(in_page - known)]
    return found


if __name__ == "__main__":
    tree.finish(problems(tree.root_from_arguments(), sys.argv[2]))
