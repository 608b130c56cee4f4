"""The Debian packages, installed in a fresh root and used there.

usage: deb_test.py BUILD_FOLDER CPACK      a build folder with everything built
Needs root, debootstrap, and the Debian mirrors that apt uses here.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, CPACK = (sys.argv.pop(1), sys.argv.pop(1)) if len(sys.argv) > 2 else ("", "")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500, check=False, **options)


def must(*command, **options):
    done = run(*command, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def release():
    """The release of this machine: bookworm."""
    with open("/etc/os-release", encoding="utf-8") as file:
        values = dict(line.strip().split("=", 1) for line in file if "=" in line)
    return values.get("VERSION_CODENAME", "").strip('"')


def sources():
    """Where apt has this release from, as lines of sources.list; the main archive first."""
    listing = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    lines = [line.split() for line in listing.stdout.splitlines()]
    ours = [line for line in lines if len(line) == 3 and line[1].startswith(release())]
    return sorted(ours, key=lambda line: line[1] != release())


def make_packages(folder, build=BUILD):
    """The packages of a build, by name of package."""
    must(CPACK, "--config", f"{build}/CPackConfig.cmake", "-G", "DEB", "-B", folder,
         env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"))
    return {path.name.split("_")[0]: path for path in Path(folder).glob("*.deb")}


def field(package, name):
    return must("dpkg-deb", "--field", package, name).strip()


class Root:
    """A fresh system made by debootstrap; what is run in it has a /proc and a /dev/shm of its own."""

    def __init__(self, folder):
        self.folder = Path(folder)
        mirror = sources()[0][0]
        must("debootstrap", "--variant=minbase", release(), self.folder, mirror)
        lines = [f"deb {' '.join(line)}\n" for line in sources()]
        (self.folder / "etc/apt/sources.list").write_text("".join(lines), encoding="utf-8")
        proxies = [line for line in run("apt-config", "dump").stdout.splitlines(keepends=True)
                   if line.startswith(("Acquire::http", "Acquire::https"))]
        (self.folder / "etc/apt/apt.conf.d/99as-outside").write_text("".join(proxies), encoding="utf-8")
        for name in ("resolv.conf", "hosts"):
            shutil.copy(Path("/etc", name), self.folder / "etc" / name)

    def command(self, *words):
        inside = 'mount -t proc proc "$0/proc" && mkdir -p "$0/dev/shm" && mount -t tmpfs -o size=2g tmpfs "$0/dev/shm" ' \
                 '&& exec chroot "$0" "$@"'
        return ["unshare", "--mount", "--fork", "--pid", "sh", "-c", inside, self.folder, *words]

    def run(self, *words):
        return run(*self.command(*words), env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                                               "DEBIAN_FRONTEND": "noninteractive"})

    def install(self, *words):
        return self.run("apt-get", "-q", "-y", "install", "--no-install-recommends", *words)


class DebTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.packages = make_packages(Path(folder.name) / "packages")
        cls.root = Root(Path(folder.name) / "root")
        # A minbase keeps the manual pages that a package brings, but has no man.
        cls.root.run("apt-get", "-q", "update")
        shutil.copy(cls.packages["dlprobe"], cls.root.folder / "dlprobe.deb")
        done = cls.root.install("/dlprobe.deb", "man-db")
        if done.returncode:
            raise AssertionError(done.stdout)

    def test_it_says_its_version(self):
        version = field(self.packages["dlprobe"], "Version")
        self.assertEqual(self.root.run("dlprobe", "--version").stdout.splitlines()[0], f"dlprobe {version}")

    def test_the_gate_runs(self):
        done = self.root.run("dlprobe", "gate", "--level", "quick", "--workers", "1", "--batch-size", "2")
        self.assertIn(done.returncode, (0, 1, 3), done.stdout)
        self.assertRegex(done.stdout, r"\A(PASS|WARN|FAIL|INCOMPLETE) ")

    def test_it_looks_at_a_process(self):
        done = self.root.run("sh", "-c", "sleep 1000 & dlprobe attach --for 1s $!; code=$?; kill $!; exit $code")
        self.assertIn(done.returncode, (0, 3), done.stdout)

    def test_it_explains(self):
        done = self.root.run("dlprobe", "explain", "DLP0301")
        self.assertEqual(done.returncode, 0)
        self.assertIn("fork-inherited-lock", done.stdout)

    def test_its_manual_page_is_there(self):
        done = self.root.run("man", "-P", "cat", "dlprobe")
        self.assertIn("name the cause when a multi-process data loader dies", " ".join(done.stdout.split()))

    def test_its_documents_are_there(self):
        folder = self.root.folder / "usr/share/doc/dlprobe"
        self.assertLessEqual({"copyright", "changelog.gz", "CHANGELOG.md", "findings"},
                             {path.name for path in folder.iterdir()})

    def test_its_completions_are_where_the_shells_look(self):
        share = self.root.folder / "usr/share"
        for name in ("bash-completion/completions/dlprobe", "zsh/vendor-completions/_dlprobe",
                     "fish/vendor_completions.d/dlprobe.fish"):
            self.assertIn("dlprobe", (share / name).read_text(encoding="utf-8"), name)

    def test_the_loader_needs_this_dlprobe_and_libtorch(self):
        if "dlprobe-reference-loader" not in self.packages:
            self.skipTest("built without the reference loader: -DDLPROBE_REFERENCE_LOADER=ON")
        package = self.packages["dlprobe-reference-loader"]
        self.assertRegex(field(package, "Depends"), r"dlprobe \(= [\d.]+\).*libtorch")
        shutil.copy(package, self.root.folder / "loader.deb")
        done = self.root.install("/loader.deb")
        self.assertEqual(done.returncode, 0, done.stdout)
        done = self.root.run("dlprobe", "shm", "--workers", "1", "--batch-size", "2", "--batches", "2",
                             "--start-method", "fork", "--sharing-strategy", "file_descriptor")
        self.assertIn(done.returncode, (0, 3), done.stdout)

    def test_each_has_its_own_summary(self):
        summaries = {name: field(package, "Description").splitlines()[0] for name, package in self.packages.items()}
        self.assertEqual(summaries["dlprobe"], "names the cause when a data loader dies, hangs or leaks")
        self.assertEqual(len(set(summaries.values())), len(summaries))

    def test_the_same_source_makes_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            again = make_packages(folder)
            for name, package in self.packages.items():
                self.assertEqual(hashlib.sha256(package.read_bytes()).digest(),
                                 hashlib.sha256(again[name].read_bytes()).digest(), name)


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not sources():
        print("needs root, debootstrap (apt-get install debootstrap) and a Debian mirror that apt knows")
        sys.exit(77)
    unittest.main()
