"""attach and stacks on live processes: what is taken, what is printed, what hostile names can do."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from support import dlprobe, python_program, report_of

VALIDATE = os.path.join(os.path.dirname(__file__), "..", "unit", "reports", "validate_report.py")
# Debian's python3-jsonschema belongs to Debian's python3, whatever else is first in PATH.
VALIDATE_PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
# Two threads, each in a function of its own; says its ids when both are there.
TWO_THREADS = """
import os, sys, threading
def waits_for_ever():
    ready.release()
    gate.acquire()
def reads_a_line():
    print(os.getpid(), thread.native_id, flush=True)
    sys.stdin.readline()
ready, gate = threading.Semaphore(0), threading.Lock()
gate.acquire()
thread = threading.Thread(target=waits_for_ever, daemon=True)
thread.start()
ready.acquire()
reads_a_line()
os._exit(0)
"""
# Two ranks of a job, as a launcher starts them; says the pid of rank 1 and its own.
RANKS = """
import os, subprocess, sys
def rank_of(number):
    variables = dict(RANK=number, WORLD_SIZE="2", MASTER_ADDR="n1", MASTER_PORT="29500", SLURM_JOB_ID=sys.argv[1])
    return subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE,
                            env={**os.environ, **variables})
ranks = [rank_of("0"), rank_of("1")]
print(ranks[1].pid, os.getpid(), flush=True)
sys.stdin.readline()
for rank in ranks:
    rank.communicate()
"""
COMPUTES = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.readline(), os._exit(0))).start()
print(os.getpid(), 0, flush=True)
while True: sum(range(1000))
"""
# A forked child stands where it is to stand when the kernel has it asleep there.
WAIT_ASLEEP = """
import os
def wait_asleep(pid):
    while open(f'/proc/{pid}/stat', encoding='latin1').read().rpartition(')')[2].split()[0] != 'S':
        os.sched_yield()
"""
# Two forked children, each of which reads from a pipe that the other has the end of to write. They
# end with their parent: nothing else can wake them.
CIRCLE = WAIT_ASLEEP + """
import ctypes, os, sys
PR_SET_PDEATHSIG, SIGKILL = 1, 9
ours, theirs = os.pipe(), os.pipe()
def stands_here(read_end, *unused):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    for end in unused:
        os.close(end)
    os.read(read_end, 1)
    os._exit(0)
for ends in ((ours[0], ours[1], theirs[0]), (theirs[0], theirs[1], ours[0])):
    if (child := os.fork()) == 0: stands_here(*ends)
    wait_asleep(child)
print(os.getpid(), os.getpid(), flush=True)
sys.stdin.readline()
"""
# Four forked children that read from one pipe; a name for each that would act on a terminal.
FORKED = WAIT_ASLEEP + """
import os, sys
read_end, write_end = os.pipe()
if len(sys.argv) > 1:
    with open('/proc/self/comm', 'w', encoding='utf-8', newline='') as comm: comm.write(sys.argv[1])
def stands_here():
    os.close(write_end)
    os.read(read_end, 1)
    os._exit(0)
for _ in range(4):
    if (child := os.fork()) == 0: stands_here()
    wait_asleep(child)
print(os.getpid(), os.getpid(), flush=True)
sys.stdin.readline()
"""
HOSTILE = "\x1b[31m\u202e\"];x"


@contextlib.contextmanager
def running(program, *arguments):
    """The program, until the end of the block; gives the two numbers that it prints."""
    with subprocess.Popen(python_program(program, *arguments), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        try:
            yield [int(word) for word in process.stdout.readline().split()]
        finally:
            process.stdin.close()


class Stacks(unittest.TestCase):
    def test_every_thread_with_the_functions_that_it_is_in(self):
        with running(TWO_THREADS) as (pid, tid):
            done = dlprobe("stacks", pid)
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("reads_a_line (<string>:8)", text)
        self.assertIn("waits_for_ever (<string>:5)", text)
        self.assertIn(f"thread {tid} ", text)
        self.assertRegex(text, r"Python 3\.\d+\.\d+")

    def test_python_frames_alone(self):
        with running(TWO_THREADS) as (pid, _):
            text = dlprobe("stacks", pid, "--python").stdout.decode()
            kinds = {frame["kind"] for process in
                     json.loads(dlprobe("stacks", pid, "--python", "--json").stdout)["processes"]
                     for thread in process["threads"] for frame in thread["stack"]}
        self.assertIn("reads_a_line", text)
        self.assertEqual(kinds, {"python"})

    def test_a_thread_stands_for_its_process_and_that_is_said(self):
        with running(TWO_THREADS) as (pid, tid):
            for command in ("stacks", "attach"):
                done = dlprobe(command, tid, *(["--for", "2s"] if command == "attach" else []))
                self.assertEqual(done.stderr.decode(),
                                 f"dlprobe: {tid} is a thread of process {pid}, which is taken\n")
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_rank_stands_for_all_ranks_of_its_job(self):
        job = str(os.getpid())
        with running(RANKS, job) as (rank, launcher):
            report = report_of("attach", rank, "--for", "0s")
            stacks = json.loads(dlprobe("stacks", rank, "--ranks", "--json").stdout)
            step = {**os.environ, "SLURM_JOB_ID": job, "SLURM_STEP_ID": "1", "SLURM_PROCID": "0"}
            of_job = report_of("attach", "--job", "--for", "0s", env=step)
        roles = {process["pid"]: (process["role"], process.get("rank")) for process in report["processes"]}
        self.assertEqual(roles[launcher], ("launcher", None))
        self.assertEqual(sorted(role for role in roles.values() if role[1] is not None), [("trainer", 0), ("trainer", 1)])
        self.assertEqual({process["rank"] for process in stacks["processes"]}, {0, 1})
        self.assertEqual({process["pid"] for process in of_job["processes"]}, set(roles))

    def test_alike_processes_are_folded_and_only_takes_one(self):
        with running(FORKED) as (pid, _):
            document = json.loads(dlprobe("stacks", pid, "--json").stdout)
            text = dlprobe("stacks", pid).stdout.decode()
            worker = next(process for process in document["processes"] if process["pid"] != pid)
            for_one = [json.loads(dlprobe("stacks", each, "--only", "--json").stdout) for each in (pid, worker["pid"])]
        self.assertEqual(len(document["processes"]), 5)
        self.assertEqual(text.count("stands_here"), 1, text)
        self.assertIn("same as ", text)
        self.assertEqual([[(process["pid"], process["role"]) for process in one["processes"]] for one in for_one],
                         [[(pid, "trainer")], [(worker["pid"], "worker")]])

    def test_what_is_written_as_json_is_as_the_schema_has_it(self):
        with running(FORKED, HOSTILE) as (pid, _), tempfile.TemporaryDirectory() as folder:
            schema = os.path.join(folder, "schema.json")
            with open(schema, "wb") as file:
                file.write(dlprobe("schema").stdout)
            for command in (["stacks", pid], ["stacks", pid, "--native"],
                            ["attach", pid, "--for", "2s"]):
                document = os.path.join(folder, "document.json")
                dlprobe(*command, "-f", f"json={document}")
                checked = subprocess.run([VALIDATE_PYTHON, VALIDATE, schema, document],
                                         capture_output=True, check=False)
                if checked.returncode == 77:
                    self.skipTest("needs python3-jsonschema (apt install it)")
                self.assertEqual(checked.returncode, 0, checked.stdout.decode())

    def test_workers_that_wait_for_one_another_are_both_shown(self):
        with running(CIRCLE) as (pid, _):
            text = dlprobe("stacks", pid).stdout.decode()
            document = json.loads(dlprobe("stacks", pid, "--json").stdout)
        self.assertEqual(len(document["processes"]), 3)
        self.assertEqual(text.count("stands_here"), 2, text)
        self.assertNotIn("same as ", text)

    def test_nobody_who_is_blocked_is_stopped(self):
        with running(FORKED) as (pid, _):
            document = json.loads(dlprobe("stacks", pid, "--no-pause", "--json").stdout)
        self.assertEqual([process["pause_s"] for process in document["processes"]], [0] * 5)

    def test_hostile_names_are_inert(self):
        with running(FORKED, HOSTILE) as (pid, _):
            for arguments in (["stacks", pid], ["attach", pid, "--for", "2s"],
                              ["attach", pid, "--for", "2s", "-f", "dot"]):
                text = dlprobe(*arguments).stdout
                self.assertNotIn(b"\x1b", text)
                self.assertNotIn("\u202e".encode(), text)
            document = json.loads(dlprobe("stacks", pid, "--json").stdout)
        self.assertEqual({process["comm"] for process in document["processes"]}, {HOSTILE})


class Attach(unittest.TestCase):
    def test_a_healthy_process_passes_and_is_told_what_it_does(self):
        with running(TWO_THREADS) as (pid, _):
            done = dlprobe("attach", pid, "--for", "2s", "-v")
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, text)
        self.assertRegex(" ".join(text.split()), rf"^PASS nothing moved while dlprobe watched: trainer {pid} waits for input on "
                         r"its standard input \(reads_a_line, <string>:8\), for \d\.\d\d? s so far")
        self.assertIn("whether a worker has lost a batch", text)

    def test_a_process_that_moves_is_not_stuck(self):
        with running(COMPUTES) as (pid, _):
            text = dlprobe("attach", pid, "--for", "2s").stdout.decode()
        self.assertTrue(text.startswith("PASS  nothing is stuck, and nothing is wrong with shared memory"), text)

    def test_the_report_is_of_every_probe_and_replays_to_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "hang.dlrec")
            with running(TWO_THREADS) as (pid, _):
                live = dlprobe("attach", pid, "--for", "2s", "--json", "--record", path)
            again = dlprobe("replay", "--json", path)
        self.assertEqual(live.stdout, again.stdout)
        report = json.loads(live.stdout)
        self.assertEqual(report["invocation"]["probe"], "attach")
        self.assertEqual({check["id"].split(".")[0] for check in report["checks"]} & {"shm", "deadlock"},
                         {"shm", "deadlock"})

    def test_deadlock_has_its_own_words_and_no_shared_memory(self):
        with running(TWO_THREADS) as (pid, _):
            text = dlprobe("deadlock", "--pid", pid, "--for", "2s").stdout.decode()
        self.assertRegex(text, r"^PASS  nothing moved while dlprobe watched: ")
        self.assertIsNone(re.search("shared memory|shm", text), text)

    def test_every_process_has_its_stacks_in_the_report(self):
        with running(FORKED) as (pid, _):
            report = report_of("attach", pid, "--for", "2s")
        self.assertEqual(len(report["processes"]), 5)
        for process in report["processes"]:
            functions = [frame["function"] for frame in process["threads"][0]["stack"]]
            wanted = "<module>" if process["pid"] == pid else "stands_here"
            self.assertIn(wanted, functions)


if __name__ == "__main__":
    unittest.main()
