"""doctor: each ability tried for real, as several users, in namespaces of its own, and with system calls forbidden."""

import ctypes
import json
import os
import shutil
import stat
import struct
import subprocess
import tempfile
import unittest

from support import DLPROBE, NEEDS_UNSHARE, TIMEOUT, can_unshare, children, dlprobe, in_private_shm

AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
FINDINGS = json.loads(dlprobe("list", "--json").stdout)["findings"]
# Numbers of x86_64, whose audit architecture is 0xc000003e (linux/audit.h).
PTRACE, PROCESS_VM_READV, UNSHARE, KCMP = 101, 310, 272, 312


def can_be_nobody():
    return shutil.which("setpriv") is not None and subprocess.run(
        [*AS_NOBODY, DLPROBE, "--version"], capture_output=True, check=False).returncode == 0


def forbid(*numbers):
    """In a child: the kernel answers EPERM to these system calls, to whatever it becomes, too (seccomp(2))."""
    def load(code, jump_true, jump_false, value):
        return struct.pack("HBBI", code, jump_true, jump_false, value)
    ld_nr, jump_equal, ret = 0x20, 0x15, 0x06
    program = load(ld_nr, 0, 0, 0)
    for index, number in enumerate(numbers):
        program += load(jump_equal, len(numbers) - index, 0, number)
    program += load(ret, 0, 0, 0x7fff0000) + load(ret, 0, 0, 0x00050000 | 1)
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.create_string_buffer(filter_, len(filter_)), 0, 0) == 0, ctypes.get_errno()


class Doctor(unittest.TestCase):
    def examined(self, done, exit_code=0):
        self.assertEqual(done.stderr, b"")
        document = json.loads(done.stdout)
        self.assertEqual(done.returncode, exit_code, document["summary"])
        states = [ability["state"] for ability in document["abilities"]]
        self.assertEqual(document["summary"]["counts"],
                         {state: states.count(state) for state in ("ok", "limited", "missing")})
        for ability in document["abilities"]:
            self.assertTrue(ability["text"] and ability["needed_for"], ability)
            if ability["state"] == "ok":
                self.assertEqual(ability["remedy"], "", ability)
        return document, {ability["name"]: ability for ability in document["abilities"]}

    def doctor(self, exit_code=0, **options):
        return self.examined(dlprobe("doctor", "-f", "json", **options), exit_code)

    def test_what_works_on_any_machine(self):
        document, abilities = self.doctor()
        self.assertEqual(document["kind"], "dlprobe.doctor")
        for name in ("proc", "stacks.started"):
            self.assertEqual(abilities[name]["state"], "ok", abilities[name])
            self.assertTrue(abilities[name]["required"])
        self.assertEqual(document["rights"]["uid"], os.geteuid())
        self.assertEqual(children(), [])

    def test_the_codes_that_it_names_are_findings(self):
        _, abilities = self.doctor()
        codes = {finding["code"] for finding in FINDINGS}
        named = {word.strip(",;:") for ability in abilities.values() for word in ability["needed_for"].replace("(", " ").replace(")", " ").split()
                 if word.startswith("DLP0")}
        self.assertGreater(len(named), 5)
        self.assertLessEqual(named, codes)

    def test_the_text_answers_in_its_first_line(self):
        text = dlprobe("doctor").stdout.decode()
        self.assertRegex(text.splitlines()[0], r"^dlprobe can do everything here|^dlprobe cannot work here")
        self.assertIn("stacks of commands that dlprobe starts", text)
        document, _ = self.doctor()
        quiet = " ".join(dlprobe("doctor", "-q").stdout.decode().split())
        self.assertEqual(quiet, document["summary"]["headline"])

    def test_nothing_is_left_behind(self):
        def groups():
            return {os.path.join(folder, name) for folder, names, _ in os.walk("/sys/fs/cgroup") for name in names
                    if name.startswith("dlprobe-")}
        before = groups()
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = file.read()
        self.doctor()
        self.assertLessEqual(groups(), before)
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            self.assertEqual(file.read(), mounts)

    def test_the_reference_loader_says_what_it_was_built_with(self):
        with tempfile.TemporaryDirectory() as folder:
            loader = os.path.join(folder, "loader")
            for text, state, said in [("echo 'dlprobe-reference-loader 9.9.9'; echo 'built with torch 7.7'", "ok", "9.9.9, built with torch 7.7"),
                                      ("echo 'error while loading shared libraries: libtorch.so'; exit 127", "missing", "does not run")]:
                with open(loader, "w", encoding="ascii") as file:
                    file.write(f"#!/bin/sh\n{text}\n")
                os.chmod(loader, stat.S_IRWXU)
                _, abilities = self.doctor(env={**os.environ, "DLPROBE_REFERENCE_LOADER": loader})
                self.assertEqual(abilities["loader"]["state"], state)
                self.assertIn(said, abilities["loader"]["text"])
        document, abilities = self.doctor(env={**os.environ, "DLPROBE_REFERENCE_LOADER": "/no/such/loader"})
        self.assertEqual(abilities["loader"]["state"], "missing")
        self.assertTrue(abilities["loader"]["remedy"])
        self.assertIn("the reference loader", document["summary"]["headline"])

    def test_without_python(self):
        _, abilities = self.doctor(env={**os.environ, "PATH": "/no/such/folder"})
        self.assertEqual(abilities["python"]["state"], "missing")

    @unittest.skipUnless(os.uname().machine == "x86_64", "the numbers of system calls are those of x86_64")
    def test_a_seccomp_filter_that_forbids_ptrace(self):
        document, abilities = self.doctor(exit_code=1, preexec_fn=lambda: forbid(PTRACE))
        for name in ("stacks.started", "stacks.own"):
            self.assertEqual(abilities[name]["state"], "missing", abilities[name])
            self.assertTrue(abilities[name]["remedy"])
        self.assertTrue(document["summary"]["headline"].startswith("dlprobe cannot work here"))
        self.assertEqual(document["rights"]["seccomp"], "filter")

    @unittest.skipUnless(os.uname().machine == "x86_64", "the numbers of system calls are those of x86_64")
    def test_a_seccomp_filter_that_forbids_the_rest(self):
        _, abilities = self.doctor(preexec_fn=lambda: forbid(UNSHARE, KCMP))
        for name in ("shm.private", "files.compare"):
            self.assertEqual(abilities[name]["state"], "missing", abilities[name])
        self.assertEqual(abilities["stacks.started"]["state"], "ok")

    @unittest.skipUnless(os.uname().machine == "x86_64", "the numbers of system calls are those of x86_64")
    def test_a_stop_without_a_copy_is_no_stack(self):
        _, abilities = self.doctor(exit_code=1, preexec_fn=lambda: forbid(PROCESS_VM_READV))
        self.assertEqual(abilities["stacks.started"]["state"], "missing", abilities["stacks.started"])

    @unittest.skipUnless(can_be_nobody(), "needs root, and a dlprobe that nobody may start")
    def test_as_nobody(self):
        document, abilities = self.examined(subprocess.run([*AS_NOBODY, DLPROBE, "doctor", "--json"], capture_output=True,
                                                           timeout=TIMEOUT, check=False))
        self.assertEqual(document["rights"], {**document["rights"], "uid": 65534, "capabilities": "0000000000000000"})
        for name in ("proc", "stacks.started"):
            self.assertEqual(abilities[name]["state"], "ok", abilities[name])
        for name in ("stacks.others", "signals"):
            self.assertEqual(abilities[name]["state"], "missing", abilities[name])
            self.assertTrue(abilities[name]["remedy"])
        self.assertIn("user id", abilities["stacks.others"]["text"])

    @unittest.skipUnless(can_unshare() and can_be_nobody(), NEEDS_UNSHARE)
    def test_hidden_processes(self):
        def ability(options):
            setup = f"mount -t proc -o {options} proc /proc && exec {' '.join(AS_NOBODY)} {DLPROBE} doctor --json && true"
            _, abilities = self.examined(in_private_shm(setup, []))
            return abilities["proc.others"]
        hidden = ability("hidepid=2")
        self.assertEqual(hidden["state"], "missing")
        self.assertIn("hidepid=", hidden["text"])
        self.assertIn("hidepid=0", hidden["remedy"])
        self.assertEqual(ability("hidepid=0")["state"], "ok")
        self.assertEqual(ability("hidepid=2,gid=65534")["state"], "ok")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_shared_memory_that_cannot_be_written(self):
        arguments = ["doctor", "--json"]
        _, abilities = self.examined(in_private_shm("mount -t tmpfs -o ro tmpfs /dev/shm", arguments))
        self.assertEqual(abilities["shm"]["state"], "missing", abilities["shm"])
        _, abilities = self.examined(in_private_shm("mount -t tmpfs -o size=8m tmpfs /dev/shm", arguments))
        self.assertEqual(abilities["shm"]["state"], "ok", abilities["shm"])
        self.assertIn("8.0 MiB", abilities["shm"]["text"])

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_without_proc(self):
        document, abilities = self.examined(in_private_shm("mount -t tmpfs tmpfs /proc", ["doctor", "--json"]), 1)
        self.assertEqual(abilities["proc"]["state"], "missing")
        self.assertIn("mount", abilities["proc"]["remedy"])
        self.assertTrue(document["summary"]["headline"].startswith("dlprobe cannot work here"))

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_in_a_pid_namespace_of_its_own(self):
        done = subprocess.run(["unshare", "-m", "-p", "-f", "--mount-proc", DLPROBE, "doctor", "--json"],
                              capture_output=True, timeout=TIMEOUT, check=False)
        document, abilities = self.examined(done)
        self.assertTrue(document["rights"]["own_pid_namespace"])
        for name in ("signals", "kernel.log"):
            self.assertEqual(abilities[name]["state"], "missing")
            self.assertIn("--pid=host", abilities[name]["remedy"])

    @unittest.skipUnless(can_unshare() and shutil.which("setpriv"), NEEDS_UNSHARE)
    def test_root_without_the_right_to_trace_among_its_own_processes(self):
        def state(*prefix):
            done = subprocess.run(["unshare", "-m", "-p", "-f", "--mount-proc", *prefix, DLPROBE, "doctor", "--json"],
                                  capture_output=True, timeout=TIMEOUT, check=False)
            _, abilities = self.examined(done)
            return abilities["stacks.others"]["state"]
        self.assertEqual(state("setpriv", "--bounding-set=-sys_ptrace"), "limited")
        self.assertEqual(state(), "ok")


if __name__ == "__main__":
    unittest.main()
