"""tools/quickstart, check, package and fuzz, with apt-get, dpkg-query, sudo, id and cmake replaced: what they install, what
they refuse, and in which words.

usage: scripts.py ROOT
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()

# Each stub writes down how it was called.
STUBS = {
    "dpkg-query": 'case " $MISSING " in *" ${@: -1} "*) exit 1;; esac; printf installed',
    "apt-get": "",
    "apt-cache": 'case " $UNKNOWN " in *" ${@: -1} "*) echo "Candidate: (none)";; *) echo "Candidate: 1.0"; '
                 'for i in {1..5000}; do echo "a long table of versions follows"; done;; esac',
    "id": 'echo "$FAKE_UID"',
    "sudo": '[ "$SUDO_ANSWER" = yes ] || exit 1; [ "$1" = -n ] && shift; "$@"',
    "cmake": 'if [ "$1" = --version ]; then echo "cmake version $CMAKE_HAS"; exit; fi; exit 1',
    "g++": 'echo "$GXX_HAS"',
}


class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.calls = self.folder / "calls"
        for name, body in STUBS.items():
            stub = self.folder / "bin" / name
            stub.parent.mkdir(exist_ok=True)
            stub.write_text(f'#!/bin/bash\necho "{name} $*" >> "{self.calls}"\n{body}\n', encoding="utf-8")
            stub.chmod(0o755)

    def run_script(self, name, *arguments, **settings):
        """Runs it up to the first real cmake call, which fails. Returns (status, output, calls)."""
        self.calls.write_text("", encoding="utf-8")
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", MISSING="", UNKNOWN="",
                           FAKE_UID="0", SUDO_ANSWER="no", CMAKE_HAS="3.25.1", GXX_HAS="12.2.0")
        environment.pop("CXX", None)
        environment.update(settings)
        result = subprocess.run([ROOT / "tools" / name, *arguments], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        # But for the commit, which is another each time.
        calls = [re.sub(r" -DDLPROBE_COMMIT=[0-9a-f]*( changed)?", "", line)
                 for line in self.calls.read_text(encoding="utf-8").splitlines()
                 if line.startswith(("apt-get", "cmake --preset"))]
        return result.returncode, result.stdout, calls

    def test_help(self):
        for name in ("quickstart", "check", "package", "fuzz"):
            status, output, calls = self.run_script(name, "--help")
            self.assertEqual((status, calls), (0, []))
            self.assertIn(f"usage: tools/{name}", output)

    def test_an_unknown_argument_is_a_usage_error(self):
        for name in ("quickstart", "check", "package", "fuzz"):
            status, output, calls = self.run_script(name, "--fast")
            self.assertEqual((status, calls), (2, []))
            self.assertIn("unknown argument: --fast", output)

    def test_nothing_is_installed_where_nothing_is_missing(self):
        status, output, calls = self.run_script("quickstart")
        self.assertEqual(status, 1)
        self.assertEqual(calls, ["cmake --preset release -DBUILD_TESTING=OFF -DDLPROBE_REFERENCE_LOADER=ON"])
        self.assertIn("configuring the preset release failed", output)

    def test_missing_packages_are_named_and_installed(self):
        _, output, calls = self.run_script("quickstart", MISSING="ninja-build libtorch-dev")
        self.assertIn("to be installed: ninja-build", output)
        self.assertIn("to be installed: libtorch-dev", output)
        self.assertEqual([call.split()[-1] for call in calls[:3]], ["update", "ninja-build", "libtorch-dev"])

    def test_neither_root_nor_sudo(self):
        status, output, calls = self.run_script("quickstart", MISSING="ninja-build", FAKE_UID="1000")
        self.assertEqual((status, calls), (1, []))
        self.assertIn("sudo would ask for a password", output)
        self.assertIn("apt-get install --no-install-recommends ninja-build", output)

    def test_sudo_that_needs_no_password(self):
        _, _, calls = self.run_script("quickstart", MISSING="ninja-build", FAKE_UID="1000", SUDO_ANSWER="yes")
        self.assertEqual(calls[1].split()[-1], "ninja-build")

    def test_no_install_refuses_with_the_names(self):
        status, output, calls = self.run_script("quickstart", "--no-install", MISSING="ninja-build")
        self.assertEqual((status, calls), (1, []))
        self.assertIn("--no-install was given", output)
        self.assertIn("ninja-build", output)

    def test_without_a_libtorch_the_loader_is_left_out_aloud(self):
        _, output, calls = self.run_script("quickstart", MISSING="libtorch-dev", UNKNOWN="libtorch-dev")
        self.assertIn("-DDLPROBE_REFERENCE_LOADER=OFF", calls[-1])
        self.assertIn("Building without the reference loader", output)

    def test_a_named_libtorch_is_enough(self):
        _, _, calls = self.run_script("quickstart", MISSING="libtorch-dev", CMAKE_PREFIX_PATH="x/site-packages/torch")
        self.assertEqual(len(calls), 1)
        self.assertIn("-DDLPROBE_REFERENCE_LOADER=ON", calls[0])

    def test_a_static_program_needs_no_libtorch(self):
        _, output, calls = self.run_script("package", "tarball", "--out", str(self.folder / "out"), MISSING="libtorch-dev")
        self.assertEqual(calls, ["cmake --preset static"])
        self.assertNotIn("libtorch-dev", output)

    def test_a_package_has_a_kind(self):
        status, output, _ = self.run_script("package")
        self.assertEqual(status, 2)
        self.assertIn("say which: deb, tarball, wheel, source or image", output)

    def test_a_fuzzer_is_one_of_the_list(self):
        _, names, _ = self.run_script("fuzz", "--list")
        status, output, calls = self.run_script("fuzz", "no-such")
        self.assertEqual((status, calls), (2, []))
        self.assertIn("there is no target no-such", output)
        _, _, calls = self.run_script("fuzz", names.split()[0], MISSING="clang-19")
        self.assertEqual([call.split()[-1] for call in calls], ["update", "clang-19", "fuzz"])

    def test_an_old_compiler_gets_a_newer_one(self):
        _, output, calls = self.run_script("quickstart", GXX_HAS="11.4.0", MISSING="g++-12")
        self.assertIn("g++ 11.4.0 is older than 12", output)
        self.assertEqual(calls[1].split()[-1], "g++-12")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
