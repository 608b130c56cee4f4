"""The documents keep their promises: every finding has its page, every link leads somewhere.

usage: docs.py ROOT
"""

import re

import tree

HEADINGS = ["What it means", "How dlprobe knows", "What to do", "When it is wrong"]
FINDING = re.compile(r'^DLP_FINDING\(\s*\w+\s*,\s*"(DLP\d{4})"\s*,\s*"([a-z0-9-]+)"', re.MULTILINE)
LINK = re.compile(r"(?<!\!)\[[^\]\n]*\]\(([^)\s]+)\)")
README_COMMANDS = ["tools/quickstart", "tools/check"]
README_LINES = 120


def check_finding(root, code, name):
    page = root / "docs/findings" / f"{name}.md"
    if not page.is_file():
        yield f"docs/findings/{name}.md: missing: {code} is in finding_codes.def"
        return
    text = page.read_text(encoding="utf-8")
    first_line = text.split("\n", 1)[0]
    if not first_line.startswith("# ") or name not in first_line:
        yield f"docs/findings/{name}.md:1: the first line must be a heading with the name {name}"
    if code not in text:
        yield f"docs/findings/{name}.md: does not say its code {code}"
    headings = re.findall(r"^## (.*\S)\s*$", text, re.MULTILINE)
    if headings[:len(HEADINGS)] != HEADINGS:
        yield f"docs/findings/{name}.md: the headings must be {', '.join(HEADINGS)}; they are {', '.join(headings)}"
    for heading, body in re.findall(r"^## (.*?)\s*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        if not body.strip():
            yield f"docs/findings/{name}.md: nothing below '{heading}'"


def check_findings(root):
    registry = FINDING.findall(tree.read(root, "lib/model/finding_codes.def"))
    index_path = root / "docs/findings/README.md"
    index = index_path.read_text(encoding="utf-8") if index_path.is_file() else ""
    for code, name in registry:
        yield from check_finding(root, code, name)
        if not any(code in line and f"({name}.md)" in line for line in index.splitlines()):
            yield f"docs/findings/README.md: has no line with {code} and a link to {name}.md"
    names = {name for _, name in registry}
    for page in sorted((root / "docs/findings").glob("*.md")):
        if page.stem not in names | {"README"}:
            yield f"docs/findings/{page.name}: no line of finding_codes.def has this name"


def anchors(text):
    """The fragments that a Markdown file offers, as GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.*\S)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(root, name):
    text = re.sub(r"^```.*?^```", "", tree.read(root, name), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (root / name.parent / path).resolve() if path else root / name
        if not file.exists():
            yield f"{name}: the link {target} leads nowhere"
        elif fragment and file.suffix == ".md" and fragment not in anchors(file.read_text(encoding="utf-8")):
            yield f"{name}: the link {target}: no such heading"


def check_readme(root):
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    for command in README_COMMANDS:
        if command not in text:
            yield f"README.md: does not name {command}"
    if text.count("\n") > README_LINES:
        yield f"README.md: longer than {README_LINES} lines"


def check_license(root):
    path = root / "LICENSE"
    if not path.is_file() or "Apache License" not in path.read_text(encoding="utf-8"):
        yield "LICENSE: missing, or not the Apache License"


def problems(root):
    found = [*check_license(root), *check_readme(root), *check_findings(root)]
    for name in tree.files(root, ".md"):
        found += check_links(root, name)
    return found


if __name__ == "__main__":
    tree.finish(problems(tree.root_from_arguments()))
