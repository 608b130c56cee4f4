"""What a user reads is plain English: none of the habits that make it hard, no endless sentence.

usage: words.py ROOT
"""

import re

import tree

# A habit, and what to write instead.
HABITS = [(re.compile(habit, re.IGNORECASE), better) for habit, better in (
    (r"\bfor whoever\b", "name the person or process"),
    (r"\b(?:is|are|was|were) to be\b", "must, will or should, and who does it"),
    (r"\btells? somebody\b", "say what happens"),
    (r"\bthat which\b", "the noun"),
    (r"\b(?:nothing can|cannot) be said\b", "dlprobe cannot tell"),
    (r"\bnobody's business\b", "ignored"),
    (r"\bof it is\b", "name the owner"),
    (r"\bsubject goes on\b", "the job is still running"),
    (r"\bof (?:which|whom) (?:each|none|one)\b", "two sentences"),
)]
MOST_WORDS = 40
# A history and two references for programs: people look things up there.
REFERENCES = ("docs/CHANGELOG.md", "docs/recording-format.md", "docs/report-schema.md")
MESSAGES = ("probes/", "lib/", "reports/", "tools/dlprobe/")
LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')
# Where a paragraph, a point of a list or a row of a table begins, or code stands.
BREAK = re.compile(r"\s*$|\s*([*-]|\d+\.) |#|\||    ")


def sentences(page):
    """(line, sentence) of a Markdown page without its code, headings and tables."""
    page = re.sub(r"^```.*?^```", lambda code: "\n" * code.group().count("\n"), page, flags=re.MULTILINE | re.DOTALL)
    start, words = 1, ""
    for number, line in enumerate([*page.splitlines(), ""], 1):
        if BREAK.match(line):
            for sentence in re.split(r"(?<=[.:;?!])[\"')*]*\s+", words):
                yield start, sentence
            start, words = number, ""
        if not line.startswith(("#", "|", "    ")):
            words += " " + line


def habits(text):
    for habit, better in HABITS:
        for hit in habit.finditer(text):
            yield text.count("\n", 0, hit.start()) + 1, f'"{hit.group()}": better: {better}'


def in_page(root, name):
    text = tree.read(root, name)
    yield from habits(text)
    if name.suffix == ".md":
        for line, sentence in sentences(text):
            if len(sentence.split()) > MOST_WORDS:
                yield line, f"a sentence of more than {MOST_WORDS} words: {' '.join(sentence.split()[:8])} ..."


def in_messages(root, name):
    text = tree.read(root, name)
    for literal in LITERALS.finditer(text):
        line = text.count("\n", 0, literal.start()) + 1
        yield from ((line, what) for _, what in habits(re.sub(r'"\s*"', "", literal.group())))


def problems(root):
    found = []
    for name in tree.files(root, ".md", ".1", ".cc"):
        place = str(name)
        if name.suffix == ".cc" and place.startswith(MESSAGES):
            hits = in_messages(root, name)
        elif name.suffix != ".cc" and place.startswith(("README.md", "docs/")) and place not in REFERENCES:
            hits = in_page(root, name)
        else:
            continue
        found += [f"{name}:{line}: {what}" for line, what in hits]
    return found


if __name__ == "__main__":
    tree.finish(problems(tree.root_from_arguments()))
