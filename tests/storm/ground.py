"""Where the storms rage: jobs to look at, the ways to call dlprobe, and a census of all that may be harmed or left.

The ground lies in namespaces of its own (`run` makes them): every process in it is the ground's, the job's or dlprobe's,
and /dev/shm and the folders are nobody else's.
"""

import collections
import contextlib
import dataclasses
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

from support import DLPROBE, FORKING_JOB, TORCH_PYTHON, has_torch
from watched import Job, Trees, Watched, read, tracer_of, until

HERE = os.path.dirname(os.path.abspath(__file__))
HUNG_TREE = os.path.join(HERE, os.pardir, "bench", "hung_tree.py")
# Of a dlprobe that hangs. Nothing here judges how long it takes.
HANGS_S = 180
SHORT_MINUTES = 5
LOOK_CODES = (0, 1, 2, 3)
JOB_CODE = 7  # of FORKING_JOB
# Of a report that is about to take the place of an older one.
SECOND_NAME = re.compile(r"\.[0-9a-f]{16}$")
# What spawn-recursion is for.
GUARDLESS = """
import multiprocessing
multiprocessing.set_start_method("fork", force=True)
lock = multiprocessing.Lock()
worker = multiprocessing.Process(target=print)
worker.start()
worker.join()
"""


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to call dlprobe. In `arguments`, {busy} and {torch} are pids of jobs, {out} is the folder for its outputs,
    {kept} the one of an earlier look's, {job} a command."""
    name: str
    arguments: str
    starts_job: bool = False
    stops: bool = False  # threads that run, to copy their stacks
    in_terminal: bool = False


MODES = [
    Mode("attach", "attach {busy} --for 0s -f json={out}/r.json -f html={out}/r.html --record {out}/r.dlrec", stops=True),
    Mode("attach torch", "attach {torch} --for 0s -f json={out}/r.json -f junit={out}/r.xml --record {out}/r.dlrec"),
    Mode("stacks", "stacks {busy} -f json={out}/stacks.json", stops=True),
    Mode("stacks torch", "stacks {torch} -f json={out}/stacks.json"),
    Mode("deadlock", "deadlock --pid {busy} --for 0.3s -f sarif={out}/r.sarif", stops=True),
    Mode("shm", "shm --pid {busy} --for 0.2s -f json={out}/r.json"),
    Mode("fd", "fd --pid {busy} --for 0.2s -f html={out}/r.html"),
    Mode("memory", "memory --pid {busy} --for 0.2s -f json={out}/r.json"),
    Mode("ps", "ps -f json={out}/r.json"),
    Mode("top --once", "top {busy} --once"),
    Mode("top", "top {busy}", in_terminal=True),
    Mode("doctor", "doctor -f json={out}/r.json"),
    Mode("gate quick", "gate --level quick -f json={out}/r.json -f junit={out}/r.xml -f sarif={out}/r.sarif"),
    Mode("gate", "gate --workers 2 -f json={out}/r.json"),
    Mode("run", "run -f json={out}/r.json --record {out}/r.dlrec -- {job}", starts_job=True),
    Mode("run --limit-memory", "run --limit-memory 256m --shm-size 16m -f html={out}/r.html -- {job}", starts_job=True),
    Mode("spawn-recursion", "spawn-recursion -f json={out}/r.json -- {python} {kept}/guardless.py"),
    Mode("tune", "tune --for 5s -f json={out}/r.json"),
    Mode("replay", "replay {kept}/r.dlrec -f html={out}/r.html -f json={out}/r.json"),
    Mode("report merge", "report merge {kept}/r.json -f json={out}/r.json"),
    Mode("report render", "report render {kept}/r.json -f html={out}/r.html"),
    Mode("report redact", "report redact {kept}/r.json --map {out}/map.json -o {out}/r.json"),
]


class Turns:
    """Modes one after the other: each gets as much time as the others."""

    def __init__(self, modes):
        self.spent = {mode: 0.0 for mode in modes}
        self.current, self.began = None, 0.0

    def next(self):
        now = time.monotonic()
        if self.current:
            self.spent[self.current] += now - self.began
        self.current, self.began = min(self.spent, key=self.spent.get), now
        return self.current


class Ground:
    def __init__(self, folder, seed, minutes):
        self.folder = folder
        self.minutes = minutes  # of all storms
        self.share_s = 0  # of the one that rages
        self.dice = random.Random(seed)
        self.open = contextlib.ExitStack()
        self.scratch, self.out, self.kept = (self.make_folder(name) for name in ("tmp", "out", "kept"))
        self.environment = {**os.environ, "TMPDIR": self.scratch}
        self.trees = Trees()
        self.open.callback(self.trees.end)
        self.jobs = {}
        self.start_jobs()
        self.shm = set(os.listdir("/dev/shm"))
        self.known = set(processes())
        self.modes = [mode for mode in MODES if "{torch}" not in mode.arguments or "torch" in self.jobs]
        self.run(self.mode("attach"), out=self.kept)
        with open(os.path.join(self.kept, "guardless.py"), "w", encoding="ascii") as script:
            script.write(GUARDLESS)

    def make_folder(self, name):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        return path

    def turns(self, *left_out):
        """In a short storm a few of them, others each time."""
        modes = [mode for mode in self.modes if mode.name not in left_out]
        return Turns(modes if self.minutes > SHORT_MINUTES else self.dice.sample(modes, 6))

    def mode(self, name):
        return next(mode for mode in self.modes if mode.name == name)

    def start_jobs(self):
        self.jobs["busy"] = Watched(self.folder)
        if has_torch():
            hung = self.open.enter_context(subprocess.Popen([TORCH_PYTHON, HUNG_TREE, "2"], stdin=subprocess.PIPE,
                                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            self.open.callback(hung.kill)
            hung.stdout.readline()
            # The threads of its start are gone when nothing changes any more.
            pids = [hung.pid, *children(hung.pid)]
            until(lambda: [Job(pids).tids for _ in range(2) if not time.sleep(0.2)][0] == Job(pids).tids)
            self.jobs["torch"] = Job(pids)

    def end(self):
        self.jobs["busy"].end()
        self.open.close()

    # Calling dlprobe

    def words(self, mode, out=None):
        places = {"out": out or self.out, "kept": self.kept, "python": sys.executable, **{name: job.pids[0] for name, job in self.jobs.items()}}
        words = [word.format(**places) if word != "{job}" else word for word in mode.arguments.split()]
        at = words.index("{job}") if mode.starts_job else len(words)
        return [DLPROBE, *words[:at], *([sys.executable, "-c", FORKING_JOB, "pt_data_worker"] if mode.starts_job else [])]

    def start(self, mode, wrap=(), **options):
        """`wrap`: a command that ends by running its arguments, as strace does."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                   "env": self.environment, **options}
        return Call(self, mode, subprocess.Popen([*wrap, *self.words(mode, options.pop("out", None))], **options))

    def run(self, mode, wrap=(), **options):
        """To its end; a job that it starts is let go at once."""
        call = self.start(mode, wrap, **options)
        call.finish()
        return call

    # What is harmed or left

    def census(self, mode, was_killed=False):
        """After a round, in words; the next round begins on clean ground."""
        wrong = [f"{name}: {what}" for name, job in self.jobs.items() for what in job.disturbances()]
        if wrong:  # Not the same harm in every round from here on.
            self.renew_jobs()
        wrong += self.left_processes() + self.left_files()
        for name in os.listdir(self.out):
            wrong += self.half_written(os.path.join(self.out, name), mode, was_killed)
        if self.dice.random() < 0.5:  # else the next round finds an older report, which must stay whole
            self.clear_out()
        return wrong

    def clear_out(self):
        for entry in os.scandir(self.out):
            os.remove(entry)

    def renew_jobs(self):
        for pid in self.jobs["busy"].pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.known -= set(self.jobs["busy"].pids)
        self.jobs["busy"].end()
        self.jobs["busy"] = Watched(self.folder)
        self.known |= set(self.jobs["busy"].pids)

    def strangers(self):
        """Processes that do not belong here; those that ended are reaped: this is process 1."""
        self.reap()
        return [pid for pid in processes() if pid not in self.known and not is_own_child_of(pid, self.trees.process.pid)]

    def reap(self):
        """Orphans that ended. What the ground started itself has its own waiter."""
        for pid in processes():
            if pid not in self.known and parent_of(pid) == os.getpid() and state_of(pid) == "Z":
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def left_processes(self):
        if until(lambda: not self.strangers(), limit_s=HANGS_S):
            return []
        wrong = []
        for pid in self.strangers():
            wrong.append(f"left: process {pid}, {read(f'/proc/{pid}/cmdline')[:80]!r}, state {state_of(pid)}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.strangers())
        return wrong

    def left_files(self):
        """What docs/security.md says that stays after SIGKILL must be gone after the next dlprobe."""
        shm = sorted(set(os.listdir("/dev/shm")) - self.shm)
        wrong = [f"left: /dev/shm/{name}" for name in shm]
        for name in shm:
            os.remove(f"/dev/shm/{name}")
        old = time.time() - 3600
        for entry in os.scandir(self.scratch):
            os.utime(entry, (old, old))
        if os.listdir(self.scratch):
            self.run(Mode("the next run", "run -- {job}", starts_job=True))
        if memory_groups():
            self.run(Mode("the next run", "run --limit-memory 256m -- {job}", starts_job=True))
        for name in os.listdir(self.scratch):
            wrong.append(f"left: {name} in TMPDIR")
            path = os.path.join(self.scratch, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        for group in memory_groups():
            wrong.append(f"left: {group}")
            with contextlib.suppress(OSError):
                os.rmdir(group)
        return wrong

    def half_written(self, path, mode, was_killed=False):
        name = os.path.basename(path)
        if was_killed and SECOND_NAME.search(name):  # docs/security.md; it must be whole
            os.rename(path, SECOND_NAME.sub("", path))
            path, name = SECOND_NAME.sub("", path), SECOND_NAME.sub("", name)
        why = None
        try:
            if name.endswith((".json", ".sarif")):
                with open(path, encoding="utf-8") as file:
                    json.load(file)
            elif name.endswith(".xml"):
                xml.etree.ElementTree.parse(path)
            elif name.endswith(".html"):
                with open(path, encoding="utf-8") as file:
                    why = None if file.read().rstrip().endswith("</html>") else "it does not end"
            elif name.endswith(".dlrec"):  # readable up to its last whole record
                if os.path.getsize(path):
                    code = subprocess.run([DLPROBE, "replay", "-q", path], capture_output=True, timeout=HANGS_S, check=False)
                    why = None if code.returncode in (0, 1, 3) or b"no " in code.stderr else code.stderr.decode()
                os.remove(path)
            else:
                why = "nobody asked for it"
        except (ValueError, xml.etree.ElementTree.ParseError) as error:
            why = str(error)
        if not why:
            return []
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        return [f"left: {name}: {why} ({mode.name})"]


class Call:
    """One dlprobe that runs."""

    def __init__(self, ground, mode, process):
        self.ground, self.mode, self.process = ground, mode, process
        self.began = time.monotonic()
        self.stdout = self.stderr = b""
        self.hangs = False

    def finish(self, limit_s=HANGS_S):
        """Its exit code; the job that it started ends by the end of its input."""
        try:
            self.stdout, self.stderr = self.process.communicate(b"\n", timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.hangs = True
            self.kill_all()
        self.seconds = time.monotonic() - self.began
        return self.process.returncode

    def let_job_end(self):
        """The job that it started, or will start, ends with the first line of its input."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.process.stdin.fileno(), b"\n")

    def kill_all(self):
        """A wrapper must not go before what it wraps."""
        for pid in [*children(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stdout, self.stderr = self.process.communicate(timeout=10)

    def wrong_end(self, more_codes=()):
        """What is wrong with how it ended."""
        code = self.process.returncode
        if self.hangs:
            return [f"{self.mode.name}: hangs for {HANGS_S} s"]
        allowed = {*LOOK_CODES, *more_codes}
        if " -- " in self.mode.arguments:  # a command that cannot be started, or that is lost
            allowed |= {125, 126, 127}
        if self.mode.starts_job:
            allowed.add(JOB_CODE)
        said = self.stderr.decode(errors="replace")[-300:]
        return [] if code in allowed else [f"{self.mode.name}: exit code {code}, {said!r}"]


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children(pid):
    return [int(word) for tid in listed(f"/proc/{pid}/task") for word in read(f"/proc/{pid}/task/{tid}/children").split()]


def listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def stat_words(pid):
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def state_of(pid):
    return (stat_words(pid) or ["gone"])[0]


def parent_of(pid):
    return int((stat_words(pid) or ["", -1])[1])


def is_own_child_of(pid, ancestor):
    """Or of a child of it: what the maker of trees made, it also reaps."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parent_of(pid)
    return False


def memory_groups():
    """Of dlprobes, below the one that this process is in (cgroup v1)."""
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return glob.glob(f"/sys/fs/cgroup/memory{path}/dlprobe-*")
    return []


def traced_threads(job):
    return [thread for thread in job.running if tracer_of(*thread)]


class InTurns:
    """A storm whose rounds go through the modes one after the other; `top` wants a terminal and is left out."""

    def __init__(self, ground):
        self.ground = ground
        self.turns = ground.turns("top")

    def round(self):
        """How it ended, and what was wrong."""
        return self.blow(self.ground, self.ground.dice, self.turns.next())


class Tally:
    """What came of a storm's rounds: a row of the table."""

    def __init__(self, storm, name):
        self.storm, self.name = storm, name
        self.tried, self.outcomes, self.wrong = 0, collections.Counter(), []

    def add(self, outcome, wrong):
        self.tried += 1
        self.outcomes[outcome] += 1
        self.wrong += wrong
