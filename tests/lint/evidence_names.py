"""lib/model/evidence_names.cc lists every evidence that a probe gives as a number: a threshold may name these alone.

usage: evidence_names.py ROOT
"""

import re

import tree

LIST = "lib/model/evidence_names.cc"
# bytes_fact("shm_size", ...), count_fact(is_so ? "this" : "that", ...), {.name = "own_work", .value = 1.5 ...}.
CALL = re.compile(r"\b(\w+)_fact\(([^,;]*),")
FIELD = re.compile(r"\{\s*\.name\s*=\s*\"([A-Za-z0-9_]+)\"\s*,\s*\.value\b")
NAME = re.compile(r"\"([A-Za-z0-9_]+)\"")


def given(root):
    """Name -> the place where a probe says it. Of a name in parts ("forecast_" + ...), that part."""
    found = {}
    for path in tree.files(root, *tree.CPP):
        if not str(path).startswith("probes/"):
            continue
        source = tree.read(root, path)
        names = [(match.start(), name) for match in CALL.finditer(source) if match.group(1) != "text"
                 for name in NAME.findall(match.group(2))]
        names += [(match.start(), match.group(1)) for match in FIELD.finditer(source)]
        for start, name in names:
            found.setdefault(name, f"{path}:{source.count(chr(10), 0, start) + 1}")
    return found


def problems(root):
    from pathlib import Path

    listed = NAME.findall(tree.read(root, Path(LIST)).split("kNames", 1)[-1])
    found = [f"{LIST}: {name} stands before {after}" for name, after in zip(listed, listed[1:]) if name > after]
    for name, place in given(root).items():
        if name not in listed and not any(each.startswith(name) or each.endswith("_" + name) for each in listed):
            found.append(f"{place}: {name} is missing in {LIST}")
    return found


if __name__ == "__main__":
    tree.finish(problems(tree.root_from_arguments()))
