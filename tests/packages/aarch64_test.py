"""dlprobe for aarch64, cross-built here: its tarball and its wheel, and the unit tests on an emulator (qemu-user).

usage: aarch64_test.py ROOT
Needs an x86_64 machine, and the Debian mirrors that apt uses here: tools/package installs the compiler and the emulator.
"""

import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path()
MACHINE_AARCH64 = 183  # EM_AARCH64
# Unit tests that qemu-user 7.2 cannot run, by what it lacks; docs/packages.md says which of them passed under a real kernel.
NOT_EMULATED = {
    "ptrace": [r"ThreadStop\."],
    "process_vm_readv": [r"SystemProcesses\.ReadsMemory$", r"TrackedNames\.AreThoseThatStandInTheMemoryOfTheTracker$"],
    "openat2": [r"(RecordedRoot|LiveRoot|FlightLook|MemoryGroupTest)\."],
    "sock_diag": [r"SocketTable\."],
    "/proc of what is started, which is that of the emulator": [
        r"(ChildProcess|CommandRunsTest|HungCommandTest|TrialTest|ConfirmTest|LoaderRunsTest|PidTest|RecorderTest|TunerTest)\.",
        r"OnFailure\.OneThatDoesNotEndIsEndedWithItsGroup$"],
    "speed: limits of time that dlprobe itself keeps": [r"SharedConnections\.", r"RemedyAttempts\.", r"SpeedMeters\."],
}


def run(*command):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=3400, check=False, cwd=ROOT)


def must(*command):
    done = run(*command)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def machine_of(program):
    return struct.unpack_from("<H", program.read_bytes(), 18)[0]


class Aarch64Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, program):
        self.assertEqual(machine_of(program), MACHINE_AARCH64)
        program.chmod(0o755)
        self.assertNotIn("INTERP", must("readelf", "--program-headers", "--wide", program))
        self.assertRegex(must("qemu-aarch64", program, "--version"), r"\Adlprobe [\d.]+\nbuilt: commit [0-9a-f]{10}.*aarch64")
        self.assertIn("fork-inherited-lock", must("qemu-aarch64", program, "explain", "DLP0301"))

    def test_the_tarball(self):
        must("tools/package", "tarball", "--arch", "aarch64", "--out", self.folder)
        with tarfile.open(next(self.folder.glob("dlprobe-*-linux-aarch64-static.tar.gz"))) as archive:
            archive.extractall(self.folder)
        self.check(next(self.folder.glob("*/bin/dlprobe")))

    def test_the_wheel(self):
        must("tools/package", "wheel", "--arch", "aarch64", "--out", self.folder)
        wheel = next(self.folder.glob("*.whl"))
        self.assertRegex(wheel.name, r"\Adlprobe-[\d.]+-py3-none-manylinux2014_aarch64\.manylinux_2_17_aarch64\.whl\Z")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.folder)
        self.check(next(self.folder.glob("*.data/scripts/dlprobe")))

    def test_the_unit_tests(self):
        script = "source tools/lib.sh; prepare_cross_build; build_preset aarch64-tests unit_tests"
        must("bash", "-euo", "pipefail", "-c", script)
        left_out = "|".join(f"^{name}" for names in NOT_EMULATED.values() for name in names)
        done = run("ctest", "--test-dir", "build/aarch64-tests", "-L", "^unit$", "-E", left_out, "-j", os.cpu_count(),
                   "--timeout", "600", "--output-on-failure")
        self.assertEqual(done.returncode, 0, done.stdout[-20000:])


if __name__ == "__main__":
    if os.uname().machine != "x86_64" or run("apt-get", "--version").returncode:
        print("needs an x86_64 machine with apt: aarch64 is cross-built by Debian's compiler")
        sys.exit(77)
    unittest.main()
