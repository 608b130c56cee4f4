"""How large things are, and that no folders include one another in a circle.

usage: shape.py ROOT

Prints the longest of each kind, then what is too long. What was too long before this lint stands in ALLOWED with its
size: it may shrink and must not grow.
"""

import ast
import collections
import re

import tree

SHIPPED = ("lib", "probes", "reports", "tools")
LIMITS = {"file": 600, "class": 250, "function": 60, "members": 15}
PROBES = {"rooms": 15, "arrows": 25}

# (kind, name) -> lines, or data members. An entry goes when what it names is within the limit.
ALLOWED = {
    # Records: a field for each fact, which list_fields or one parser names once.
    ("members", "lib/collect/tree/tracked_process.h TrackedProcess"): 23,
    ("members", "lib/model/tuning.h TuneRow"): 16,
    ("members", "lib/proc/pid_stat.h PidStat"): 17,
    ("members", "lib/model/rank_state.h RankState"): 16,
    ("members", "tools/reference_loader/fault.h FaultEffects"): 41,
    ("members", "tools/reference_loader/loader.h Loader"): 17,
}

INCLUDE = re.compile(r'^#include "([^"]+)/[^/"]+"', re.MULTILINE)
CLASS = re.compile(r"^( *)(?:template <.*> )?(?:class|struct) (?:\[\[\w+\]\] )?(\w+(?:::\w+)*)[^;()]*\{$")
OPENS = re.compile(r"^((?:  )?)(?![ }#/:])(?!namespace|enum|union|extern \"C\"|if|for|while|switch|else|do |try|catch|return)(.*)$")


def cpp_blocks(text):
    """Yields (kind, name, lines) of each class and function; the layout is clang-format's."""
    lines = tree.code_only(text).split("\n")
    for first, line in enumerate(lines):
        found = CLASS.match(line)
        if found:
            end = closing(lines, first, found.group(1) + "};")
            yield "class", found.group(2), end - first + 1
            if f"Of<{found.group(2)}>" not in text:  # a record has a field for each fact, and a list of them
                yield "members", found.group(2), data_members("\n".join(lines[first + 1:end]))
            continue
        found = OPENS.match(line)
        if not found or "(" not in line or line.rstrip().endswith((";", ":")) or "=" in line.split("(")[0]:
            continue
        head = opening(lines, first)
        if head is None or CLASS.match(lines[head]):
            continue
        end = closing(lines, head, found.group(1) + "}")
        name = re.search(r"([\w:~]+)\s*\(", line)
        if end is not None and name and not name.group(1).isupper():
            yield "function", name.group(1), end - first


def data_members(body):
    """How many data members a class has, from what stands between its braces; static ones do not count."""
    count, text, depth = 0, "", 0
    for character in re.sub(r"#[^\n]*|\b(?:public|private|protected):", " ", body):
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0 and is_function(text):
                text = ""
        elif depth == 0 and character == ";":
            count += is_data_member(text)
            text = ""
        elif depth == 0:
            text += character
    return count


def without_arguments_of_templates(text):
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def is_function(text):
    return "(" in without_arguments_of_templates(text).split("=")[0]


def is_data_member(text):
    words = without_arguments_of_templates(text).split()
    not_data = {"using", "friend", "static", "typedef", "template", "struct", "class", "enum", "union"}
    return len(words) > 1 and not_data.isdisjoint(words[:2]) and "operator" not in text and not is_function(text)


def opening(lines, first):
    """The line on which the body of what begins at `first` opens; None: it has none."""
    for at in range(first, min(first + 12, len(lines))):
        if lines[at].rstrip().endswith(";"):
            return None
        if lines[at].rstrip().endswith("{"):
            return at
    return None


def closing(lines, first, end):
    for at in range(first + 1, len(lines)):
        if lines[at].rstrip() == end:
            return at
        if end.endswith("}") and lines[at].startswith(end + " "):
            return None
    return len(lines) - 1 if end.endswith(";") else None


def python_blocks(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "function", node.name, node.end_lineno - node.lineno + 1
        elif isinstance(node, ast.ClassDef):
            yield "class", node.name, node.end_lineno - node.lineno + 1


def sizes(root):
    """{kind: [(lines, name)]}, the longest first."""
    found = collections.defaultdict(list)
    for name in tree.files(root, ".cc", ".h", ".py"):
        if name.parts[0] not in SHIPPED:
            continue
        text = tree.read(root, name)
        found["file"].append((text.count("\n"), str(name)))
        for kind, block, lines in (python_blocks if name.suffix == ".py" else cpp_blocks)(text):
            found[kind].append((lines, f"{name} {block}"))
    return {kind: sorted(each, reverse=True) for kind, each in found.items()}


def arrows(root):
    """{folder: folders that its files include from}, itself left out."""
    found = collections.defaultdict(set)
    for name in tree.files(root, ".cc", ".h"):
        if name.parts[0] not in SHIPPED:
            continue
        here = str(name.parent)
        found[here] |= {folder for folder in INCLUDE.findall(tree.read(root, name))
                        if folder.split("/")[0] in SHIPPED and folder != here}
    return found


def circles(graph):
    """Each set of folders of which every one reaches every other."""
    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for following in graph.get(todo.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return seen
    reach = {folder: reached(folder) for folder in graph}
    found = {frozenset(other for other in reach[folder] if folder in reach.get(other, ())) for folder in graph
             if folder in reach[folder]}
    return sorted((sorted(circle) for circle in found), key=str)


def check(root, allowed=None):
    """The problems of the tree; prints what is largest."""
    allowed = ALLOWED if allowed is None else allowed
    problems = []
    for kind, each in sorted(sizes(root).items()):
        print(f"longest {kind}: " + "; ".join(f"{name}: {lines}" for lines, name in each[:5]))
        for lines, name in each:
            if lines > max(LIMITS[kind], allowed.get((kind, name), 0)):
                what = f"{lines} data members" if kind == "members" else f"a {kind} of {lines} lines"
                problems.append(f"{name}: {what}; {LIMITS[kind]} are the limit")
    graph = arrows(root)
    for circle in circles(graph):
        problems.append("folders include one another in a circle: " + ", ".join(circle))
    rooms = [folder for folder in graph if folder.split("/")[0] == "probes"]
    between = [(folder, other) for folder in rooms for other in graph[folder] if other.split("/")[0] == "probes"]
    print(f"probes: {len(rooms)} rooms, {len(between)} arrows")
    if len(rooms) > PROBES["rooms"] or len(between) > PROBES["arrows"]:
        problems.append(f"probes has {len(rooms)} rooms and {len(between)} arrows; {PROBES['rooms']} and "
                        f"{PROBES['arrows']} are the limits")
    return problems


if __name__ == "__main__":
    tree.finish(check(tree.root_from_arguments()))
