"""`tools/package source`: two runs give the same bytes, and what is in it is what git has.

usage: source_test.py ROOT
"""

import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path()


def git(*words):
    return subprocess.run(["git", "-c", f"safe.directory={ROOT}", *words], cwd=ROOT, capture_output=True, text=True,
                          check=False).stdout


class SourceTest(unittest.TestCase):
    def make(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        done = subprocess.run([ROOT / "tools/package", "source", "--out", folder.name], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return next(Path(folder.name).glob("dlprobe-*.tar.gz"))

    def test_two_runs_give_the_same_bytes(self):
        self.assertEqual(self.make().read_bytes(), self.make().read_bytes())

    def test_it_has_what_git_has(self):
        with tarfile.open(self.make()) as archive:
            names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
            times = {member.mtime for member in archive}
        self.assertLessEqual(set(git("ls-tree", "-r", "--name-only", "HEAD").split()), names)
        self.assertEqual(times, {int(git("log", "-1", "--format=%ct"))})


if __name__ == "__main__":
    if not git("rev-parse", "HEAD"):
        print("needs a git repository: this is an unpacked archive")
        sys.exit(77)
    unittest.main()
