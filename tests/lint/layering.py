"""The arrows of the house (docs/architecture.md), held against include lines, link lines and calls.

usage: layering.py ROOT
"""

import re

import tree

# Folder -> the folders that it may include from and link to, itself among them.
ARROWS = {
    "lib/base": {"lib/base"},
    "lib/foreign": {"lib/base", "lib/foreign"},
    "lib/model": {"lib/base", "lib/model"},
    "lib/record": {"lib/base", "lib/model", "lib/record"},
    "lib/os": {"lib/base", "lib/model", "lib/os"},
    "lib/proc": {"lib/base", "lib/model", "lib/os", "lib/proc"},
    "lib/subject": {"lib/base", "lib/foreign", "lib/model", "lib/record", "lib/os", "lib/proc", "lib/subject"},
    "lib/stacks": {"lib/base", "lib/foreign", "lib/model", "lib/os", "lib/proc", "lib/stacks"},
    "lib/collect": {"lib/base", "lib/model", "lib/os", "lib/proc", "lib/stacks", "lib/collect", "lib/foreign"},
    "lib/session": {"lib/base", "lib/foreign", "lib/model", "lib/record", "lib/os", "lib/proc", "lib/subject",
                    "lib/collect", "lib/session"},
    "probes": {"lib/base", "lib/model", "lib/foreign", "probes"},
    "reports": {"lib/base", "lib/model", "lib/foreign", "reports"},
    "tools/dlprobe": {"lib/base", "lib/foreign", "lib/model", "lib/record", "lib/os", "lib/proc", "lib/subject",
                      "lib/collect", "lib/session", "probes", "reports", "tools/dlprobe"},
    "tools/reference_loader": {"lib/base", "lib/model", "lib/os", "lib/proc", "tools/reference_loader"},
}

# Package -> what its include lines look like, what its CMake targets look like, who may use it.
PACKAGES = {
    "nlohmann_json": (r"nlohmann/", r"nlohmann_json::", ("reports/", "lib/subject/", "tools/", "tests/")),
    "ncurses": (r"(n?curses|term)\.h", r"NCURSESW", ("tools/", )),
    "CLI11": (r"CLI/", r"CLI11::", ("tools/", "tests/")),
    "libtorch": (r"(torch|ATen|c10)/", r"TORCH_LIBRARIES|\btorch(_library|_cpu)?\b(?=.*\))",
                 ("tools/reference_loader/", "tests/unit/tools/reference_loader/")),
    "OpenCV": (r"opencv2/", r"OpenCV_LIBS|opencv_\w+", ("tools/reference_loader/", "tests/unit/tools/reference_loader/")),
}
# Within a folder that links a package, the only files that may include it.
ONLY_IN = {
    ("nlohmann_json", "lib/subject"): ("lib/subject/told_lines.cc",),
    ("nlohmann_json", "reports"): ("reports/model/json.h",),
    ("nlohmann_json", "tools/dlprobe"): (),
    ("ncurses", "tools/dlprobe"): ("tools/dlprobe/top/terminal.cc",),
}
# The report is made of structs: JSON is for files, and for formats that are JSON themselves.
JSON = re.compile(r"reports/model/\w*json\.h")
MAY_USE_JSON = ("reports/model/", "reports/exports/", "reports/document/html_charts.cc", "reports/redact/redact.cc",
                "tools/dlprobe/commands/config.cc", "tests/")

# Where files may be opened. The loader stands alone: it links no lib/os for its data.
MAY_OPEN = ("lib/os/", "tools/reference_loader/", "tests/")
# A call, not a declaration or a method: what stands before the name is an operator or `return`.
OPENING = re.compile(
    r"(?:(?:^|[=(,{;!&|?]|(?<!:):(?!:)|\breturn)\s*(?:::)?(open|openat|openat2|creat|fopen|opendir|fdopendir)\s*\()"
    r"|\b(i|o)?fstream\b|\bdirectory_iterator\b", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[>"]', re.MULTILINE)


def folder_of(name):
    """The folder of the house that a path lies in; None for one outside (tests, docs)."""
    parts = str(name).split("/")
    for length in (2, 1):
        folder = "/".join(parts[:length])
        if folder in ARROWS and len(parts) > length:
            return folder
    return None


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_includes(name, text):
    folder = folder_of(name)
    for match in INCLUDE.finditer(text):
        place, target = f"{name}:{line_of(text, match.start(2))}", match.group(2)
        to = folder_of(target)
        if folder and to and to not in ARROWS[folder]:
            yield f"{place}: {folder} must not include {target}"
        if folder and match.group(1) == '"' and not to:
            yield f'{place}: "{target}" is no path from the root of the repository into the house'
        if JSON.match(target) and not str(name).startswith(MAY_USE_JSON):
            yield f"{place}: JSON must not be used here; it may be in {', '.join(MAY_USE_JSON)}"
        for package, (include, _, users) in PACKAGES.items():
            if not re.match(include, target):
                continue
            only = ONLY_IN.get((package, folder))
            if not str(name).startswith(users) or (only is not None and str(name) not in only):
                yield f"{place}: {package} must not be included here; it may be in {', '.join(users if only is None else only) or 'no file'}"


def check_words(name, text):
    """Literals are dlprobe's own words (lib/base/own_words.h); text of somebody else must not look like one."""
    if not str(name).startswith("probes/"):
        return
    for match in re.finditer(r"\bc_str\(\)", text):
        yield f"{name}:{line_of(text, match.start())}: c_str(): say what the text is (lib/base/message.h)"


def check_calls(name, text):
    if str(name).startswith(MAY_OPEN):
        return
    for match in OPENING.finditer(text):
        place = f"{name}:{line_of(text, match.end())}"
        yield f"{place}: {match.group().split()[-1]}: files are opened in lib/os only"


def alias_folders():
    """CMake alias -> folder: dlprobe::base is lib/base, dlprobe::probes is probes."""
    return {f"dlprobe::{folder.split('/')[-1]}": folder for folder in ARROWS}


def check_links(name, text):
    folder = folder_of(name)
    text = re.sub(r"#[^\n]*", "", text)
    for match in re.finditer(r"target_link_libraries\s*\(([^)]*)\)", text):
        place = f"{name}:{line_of(text, match.start())}"
        for alias in re.findall(r"dlprobe::\w+", match.group(1)):
            to = alias_folders().get(alias)
            if folder and to and to not in ARROWS[folder]:
                yield f"{place}: {folder} must not link {alias}"
        for package, (_, target, users) in PACKAGES.items():
            if re.search(target, match.group(1)) and not str(name).startswith(users):
                yield f"{place}: {package} must not be linked here; it may be in {', '.join(users)}"


def problems(root):
    found = []
    for name in tree.files(root, *tree.CPP):
        text = tree.code_only(tree.read(root, name))
        found += check_includes(name, text)
        found += check_calls(name, text)
        found += check_words(name, text)
    for name in tree.files(root):
        if name.name == "CMakeLists.txt":
            found += check_links(name, tree.read(root, name))
    return found


if __name__ == "__main__":
    tree.finish(problems(tree.root_from_arguments()))
