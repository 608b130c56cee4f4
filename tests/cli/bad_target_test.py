"""Targets that are not what dlprobe would like: a clear line or a stated gap, the right exit code, and no harm.

Beside these: bad_input_test.py (what is no process, a thread of the kernel, a zombie, somebody else's),
attach_test.py (a thread's id), kill_test.py (a target that ends meanwhile).
"""

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

from support import DLPROBE, TIMEOUT, dlprobe, python_program, traced

STACK_TARGET = os.environ["DLPROBE_STACK_TARGET"]
COMPILER = os.environ.get("DLPROBE_CXX", "")
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

# Waits in a function of a function, for its input.
WAITS = """
#include <unistd.h>
extern "C" __attribute__((noinline)) int waits_here(int fd) { char c; return (int)read(fd, &c, 1) + 1; }
extern "C" __attribute__((noinline)) int goes_deeper(int fd) { return waits_here(fd) + 1; }
"""
MAIN = 'int main() { if (write(1, "ready\\n", 6) < 0) return 1; return goes_deeper(0); }'
LOADS_LIBRARY = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
print('ready', flush=True)
library.goes_deeper(0)
"""
MAIN_THREAD_ENDS = """
import ctypes, os, sys, threading
SYS_EXIT = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]
def stays():
    while open(f'/proc/{os.getpid()}/stat').read().rpartition(')')[2].split()[0] != 'Z': pass
    print('ready', flush=True)
    sys.stdin.readline()
    os._exit(0)
threading.Thread(target=stays).start()
ctypes.CDLL(None).syscall(SYS_EXIT, 0)
"""
LOOKS_AT_ITSELF = """
import os, subprocess, sys
sys.exit(subprocess.run([sys.argv[1], *sys.argv[2:], str(os.getpid())], check=False).returncode)
"""


@contextlib.contextmanager
def started(*command):
    """The program, from its first line of output on until the end of the block."""
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.first_line = process.stdout.readline().decode()
            yield process
        finally:
            process.kill()


def until_it_reads(pid):
    """Its input: all that it does before that is behind it."""
    wanted = {"x86_64": "0", "aarch64": "63"}[os.uname().machine]
    while True:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            words = file.read().split()
        if words[:2] == [wanted, "0x0"]:
            return


def compiled(path, source, *options):
    """Whether it could be; a skip says so where not."""
    if not COMPILER:
        raise unittest.SkipTest("needs a compiler: DLPROBE_CXX")
    done = subprocess.run([COMPILER, "-O1", *options, "-o", path, "-x", "c++", "-"], input=source.encode(),
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise unittest.SkipTest("needs a C library for that: " + done.stderr.decode().strip().replace("\n", " "))
    return path


class BadTargets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def stacks(self, pid, *options):
        done = dlprobe("stacks", pid, "--json", *options)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return json.loads(done.stdout)

    def assert_attach_gives_a_report(self, pid):
        done = dlprobe("attach", pid, "--for", "0s", "--json")
        self.assertIn(done.returncode, (0, 3), done.stderr)
        self.assertEqual(done.stderr, b"")
        return json.loads(done.stdout)

    def assert_undisturbed(self, pid):
        with open(f"/proc/{pid}/status", encoding="latin1") as file:
            status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        self.assertIn(status["State"][0], "RSD")
        self.assertEqual(status["TracerPid"].strip(), "0")

    @staticmethod
    def main_stack(document):
        """What is in it ("FUNCTION FILE"), innermost first, and what is said to be missing."""
        thread = document["processes"][0]["threads"][0]
        frames = [f"{frame.get('function', '')} {os.path.basename(frame.get('file', ''))}" for frame in thread["stack"]]
        return frames, thread.get("stack_note", "")

    def test_a_stripped_static_program(self):
        program = compiled(os.path.join(self.folder, "static"), WAITS + MAIN, "-static", "-s")
        with started(program) as target:
            until_it_reads(target.pid)
            frames, note = self.main_stack(self.stacks(target.pid))
            self.assert_attach_gives_a_report(target.pid)
            self.assert_undisturbed(target.pid)
        self.assertEqual(set(frames), {" static"})
        # main is four calls away from the wait; a stack that ends before says why.
        self.assertTrue(len(frames) >= 4 or "no unwind table of static" in note, (frames, note))

    def library(self):
        return compiled(os.path.join(self.folder, "mine.so"), WAITS, "-shared", "-fPIC")

    def test_a_library_that_was_replaced_under_its_process(self):
        path = self.library()
        with started(*python_program(LOADS_LIBRARY, path)) as target:
            until_it_reads(target.pid)
            for replacement in (None, b"", b"now a text\n" * 1000):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
                if replacement is not None:
                    with open(path, "wb") as file:
                        file.write(replacement)
                # Time to copy all on a busy machine, too.
                frames, note = self.main_stack(self.stacks(target.pid, "--max-pause", "1s"))
                self.assertEqual(frames[1:3], ["waits_here mine.so (deleted)", "goes_deeper mine.so (deleted)"])
                self.assertEqual(note, "")

    def test_a_library_whose_bytes_became_others(self):
        good = self.library()
        with open(good, "rb") as file:
            size = len(file.read())
        dice = random.Random(4)
        half, name = size // 2, "other.so"
        noise = bytes(dice.randrange(256) for _ in range(size))
        damages = {"empty": (0, b""), "half": (half, b""), "text": (size, b"now a text " * (size // 11)),
                   "noise": (size, noise), "noise behind the magic": (size, b"\x7fELF\2\1\1" + noise[7:]),
                   "no sections": (size, None)}
        for damage, (length, content) in damages.items():
            path = os.path.join(self.folder, name)
            shutil.copy(good, path)
            with self.subTest(damage=damage), started(*python_program(LOADS_LIBRARY, path)) as target:
                until_it_reads(target.pid)
                with open(path, "r+b") as file:  # the same file: the process sees it change, too
                    file.truncate(length)
                    if content is None:
                        file.seek(40)  # e_shoff
                        file.write((2 ** 40).to_bytes(8, "little"))
                    else:
                        file.write(content[:length])
                frames, note = self.main_stack(self.stacks(target.pid))
                self.assert_attach_gives_a_report(target.pid)
                self.assert_undisturbed(target.pid)
                self.assertIn("read libc.so.6", frames[0])
                self.assertEqual(frames[1].split()[-1], name)
                # Python's frames are kept.
                self.assertTrue(any(frame.startswith("<module>") for frame in frames), frames)
                if damage != "no sections":
                    self.assertNotEqual(note, "", "a stack that is cut off says why")

    def test_memory_that_comes_and_goes(self):
        notes = set()
        with started(STACK_TARGET, "vanish") as target:
            for _ in range(20):
                for process in self.stacks(target.pid)["processes"]:
                    for thread in process["threads"]:
                        self.assertTrue(thread["stack"] or thread.get("stack_note"), thread)
                        notes.update(thread.get("stack_note", "").split("; "))
            self.assert_attach_gives_a_report(target.pid)
            self.assert_undisturbed(target.pid)
        for note in notes:
            self.assertRegex(note, "^$|^memory at 0x[0-9a-f]+ cannot be read$|^it |^stop it: |^a register |^what called it ")

    def test_a_process_whose_main_thread_has_ended(self):
        with started(*python_program(MAIN_THREAD_ENDS)) as target:
            text = dlprobe("stacks", target.pid).stdout.decode()
            report = self.assert_attach_gives_a_report(target.pid)
        self.assertIn("stays (<string>:", text)
        self.assertIn("python", " ".join(report["processes"][0]["cmdline"]))

    def test_a_process_that_another_program_traces(self):
        with started(STACK_TARGET, "spin", 2) as target, traced(target.pid):
            document = self.stacks(target.pid)
            text = dlprobe("attach", target.pid, "--for", "0s").stdout.decode()
        self.assertEqual(len(document["processes"][0]["threads"]), 3)
        for said in (json.dumps(document["limitations"]), " ".join(text.split())):
            self.assertIn("another program already traces the process", said)
            self.assertIn("(the-debugger)", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs two users: run as root")
    def test_a_process_that_is_not_dumpable(self):
        ready = os.pipe()
        pid = os.fork()
        if pid == 0:  # no exec: that would make it dumpable again
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
            os.write(ready[1], b".")
            signal.pause()
        try:
            os.read(ready[0], 1)
            for arguments in (["attach"], ["stacks"], ["deadlock", "--pid"], ["shm", "--pid"]):
                with self.subTest(arguments=arguments):
                    done = subprocess.run([*AS_NOBODY, DLPROBE, *arguments, str(pid)], capture_output=True,
                                          timeout=TIMEOUT, check=False)
                    text = done.stderr.decode()
                    self.assertEqual((done.returncode, done.stdout, text.count("\n")), (3, b"", 1), text)
                    self.assertIn("it is not dumpable", text)
                    self.assertIn(f"what would help: sudo dlprobe attach {pid}", text)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(ready[0])
            os.close(ready[1])

    def test_a_process_that_starts_dlprobe_itself(self):
        command = python_program(LOOKS_AT_ITSELF, DLPROBE, "stacks", "--json")
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        document = json.loads(done.stdout)
        self.assertEqual([process["pid"] for process in document["processes"]], [document["asked_pid"]])
        self.assertEqual(document["limitations"], [])


if __name__ == "__main__":
    unittest.main()
