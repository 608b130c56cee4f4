"""The static program of `tools/package tarball` needs nothing of the system that it runs on.

usage: tarball_test.py ROOT
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=3000, check=False, **options)


class TarballTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        done = run(ROOT / "tools/package", "tarball", "--out", cls.folder)
        if done.returncode:
            raise AssertionError(done.stdout)
        with tarfile.open(next(cls.folder.glob("*.tar.gz"))) as archive:
            archive.extractall(cls.folder)
            cls.times = {member.mtime for member in archive}
        cls.program = next(cls.folder.glob("*/bin/dlprobe"))

    def test_its_sum_is_right(self):
        done = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_it_needs_no_library(self):
        self.assertNotIn("NEEDED", run("readelf", "--dynamic", "--wide", self.program).stdout)
        self.assertNotIn("INTERP", run("readelf", "--program-headers", "--wide", self.program).stdout)

    def test_its_files_have_one_time(self):
        self.assertEqual(len(self.times), 1)

    def test_it_brings_its_manual_page_and_licence(self):
        names = {path.name for path in self.folder.rglob("*")}
        self.assertLessEqual({"dlprobe.1", "LICENSE", "CHANGELOG.md"}, names)

    def test_it_runs_in_an_empty_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root for a root of its own: run the tests as root")
        root = self.folder / "root"
        for name in ("proc", "dev/shm", "tmp"):
            (root / name).mkdir(parents=True)
        (root / "dlprobe").write_bytes(self.program.read_bytes())
        (root / "dlprobe").chmod(0o755)
        # A program from outside is there to attach to; it ends with its namespace.
        inside = 'mount -t proc proc "$0/proc" && mount -t tmpfs -o size=1g tmpfs "$0/dev/shm" || exit; sleep 1000 & ' \
                 'case $1 in attach) set -- "$@" $! ;; esac; exec chroot "$0" /dlprobe "$@"'

        def dlprobe(*words):
            return run("unshare", "--mount", "--fork", "--pid", "sh", "-c", inside, root, *words)

        self.assertRegex(dlprobe("--version").stdout, r"\Adlprobe \d+\.\d+\.\d+\nbuilt: commit [0-9a-f]{10}")
        self.assertIn("fork-inherited-lock", dlprobe("explain", "DLP0301").stdout)
        gate = dlprobe("gate", "--level", "quick", "--workers", "1", "--batch-size", "2")
        self.assertRegex(gate.stdout, re.compile(r"\A(PASS|WARN|FAIL|INCOMPLETE) "))
        self.assertIn(gate.returncode, (0, 1, 3))
        attach = dlprobe("attach", "--for", "1s")
        self.assertIn(attach.returncode, (0, 3), attach.stdout)
        doctor = dlprobe("doctor")
        self.assertIn(doctor.returncode, (0, 1, 3), doctor.stdout)
        self.assertIn("stopped, read and released a process", doctor.stdout)


if __name__ == "__main__":
    unittest.main()
