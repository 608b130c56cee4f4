"""What must not stand in any file: notes to self, and names that are true on one machine only.

usage: text.py ROOT
"""

import re

import tree

# Written so that this file does not trip over itself.
NOTES_TO_SELF = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_NAMES = [
    # A home directory. /proc/PID/root/dev/shm and the like are another thing: there /root follows a word.
    ("a path of one machine", re.compile(r"(?:^|[\s\"'`=:(,])/root/")),
    ("a path of one machine", re.compile(r"(?:^|[\s\"'`=:(,])/(home|Users)/[a-z_][\w.-]*/")),
    ("a path of one machine", re.compile(r"(?:^|[\s\"'`=:(,])/work/\w")),
    ("the host of a registry", re.compile(
        r"\bpypi[.]org|pythonhosted[.]org|(deb|security)[.]debian[.]org|(archive|security)[.]ubuntu[.]com"
        r"|registry[.]npmjs|ghcr[.]io|docker[.]io")),
]
# Machine-made or quoted word for word.
EXEMPT = ("LICENSE", "tests/fixtures/")


def problems(root):
    found = []
    for name in tree.files(root):
        if str(name).startswith(EXEMPT):
            continue
        for number, line in enumerate(tree.read(root, name).splitlines(), 1):
            match = NOTES_TO_SELF.search(line)
            if match:
                found.append(f"{name}:{number}: {match.group()}: finish it or open an issue")
            for what, pattern in MACHINE_NAMES:
                match = pattern.search(line)
                if match:
                    found.append(f"{name}:{number}: {match.group().strip()}: names {what}")
    return found


if __name__ == "__main__":
    tree.finish(problems(tree.root_from_arguments()))
