"""The machine lies: files of /proc that are missing, cut off or absurd, a million processes, pids that come again; and
others look at the same target."""

import contextlib
import os
import subprocess
import sys
import time

from ground import HANGS_S, SHORT_MINUTES, InTurns, Mode, state_of
from support import FORKING_JOB, traced
from watched import tracer_of, until

# Below the folder of a process; {tid} is its main thread's.
FILES = ("stat", "statm", "status", "maps", "smaps_rollup", "cmdline", "environ", "io", "limits", "cgroup", "mountinfo", "comm",
         "oom_score_adj", "sched", "schedstat", "wchan", "syscall", "task/{tid}/stat", "task/{tid}/status", "task/{tid}/comm",
         "task/{tid}/syscall", "task/{tid}/schedstat", "task/{tid}/children", "net/tcp", "net/unix")
FOLDERS = ("task", "fd", "fdinfo", "ns", "task/{tid}", "net")
MACHINE = ("meminfo", "stat", "vmstat", "loadavg", "uptime", "mounts", "filesystems", "cpuinfo", "swaps", "sys/kernel/pid_max",
           "sys/kernel/shmmax", "sys/fs/file-max", "sys/vm/max_map_count", "sys/vm/overcommit_memory", "sys/kernel/osrelease",
           "sys/kernel/yama/ptrace_scope", "pressure/memory", "pressure/io")


def lie(dice, text):
    """Another text in place of `text`, which is of the kernel."""
    words = text.split(b" ")
    return dice.choice([
        lambda: b"",
        lambda: text[:dice.randint(0, len(text))],
        lambda: text.replace(b"1", dice.choice((b"-1", b"18446744073709551616", b"9" * 40, b"\xff"))),
        lambda: b" ".join(dice.choice((word, b"18446744073709551615", b"-9223372036854775808", b"0")) for word in words),
        lambda: bytes(dice.randrange(256) for _ in range(dice.randint(1, 5000))),
        lambda: text * dice.randint(2, 200),
        lambda: b"\0" * dice.choice((1, 4096, 1 << 24)),
        lambda: b"(" * 10000 + text,
        lambda: b"\n" * 100000,
    ])()


class LyingProc(InTurns):
    """Lies are mounted over a few files of /proc, before dlprobe alone."""
    name, weight = "/proc lies", 3

    def __init__(self, ground):
        super().__init__(ground)
        self.folder = ground.make_folder("lies")
        os.mkdir(os.path.join(self.folder, "nothing"))

    def places(self):
        pids = [pid for job in self.ground.jobs.values() for pid in job.pids]
        own = [(f"/proc/{pid}/{name.format(tid=pid)}", name in FOLDERS) for pid in pids for name in (*FILES, *FOLDERS)]
        machine = [(f"/proc/{name}", False) for name in MACHINE]
        return [place for place in own + machine * len(pids) if os.path.exists(place[0])]

    def blow(self, ground, dice, mode):
        lies, mounts = [], []
        for number, (path, is_folder) in enumerate(dice.sample(self.places(), dice.randint(1, 6))):
            source = os.path.join(self.folder, "nothing" if is_folder else str(number))
            if not is_folder:
                self.write_lie(path, source)
            lies.append(path)
            mounts.append(f"mount --bind {source} {path} 2>&-")
        done = ground.run(mode, ["unshare", "-m", "sh", "-c", "; ".join(mounts) + '; exec "$0" "$@"'])
        wrong = done.wrong_end() + ground.census(mode)
        return f"exit code {done.process.returncode}", [f"{lies}: {what}" for what in wrong]

    def write_lie(self, path, source):
        text = b"0 0 0\n"
        with contextlib.suppress(OSError), open(path, "rb") as file:
            text = file.read(1 << 20)
        with open(source, "wb") as file:
            file.write(lie(self.ground.dice, text))


class ManyProcesses:
    """A /proc with a million processes, all of which say the same: they are links to one of the target's."""
    name, weight = "a million processes", 0
    first = 100_000
    patience_s = 600

    def __init__(self, ground):
        self.ground = ground
        self.count = 1_000_000 if ground.minutes > SHORT_MINUTES else 50_000

    def round(self):
        ground = self.ground
        folder = ground.make_folder("proc")
        mode = Mode("ps", "ps -f json={out}/r.json")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,nr_inodes=0", "tmpfs", folder], check=True)
        try:
            real = os.path.join(folder, "real")
            os.mkdir(real)
            for name in os.listdir("/proc"):
                os.symlink(f"real/{name}", os.path.join(folder, name))
            one = os.path.join(folder, str(ground.jobs["busy"].pids[1]))
            for pid in range(self.first, self.first + self.count):
                os.link(one, os.path.join(folder, str(pid)), follow_symlinks=False)
            hide = f'mount --rbind /proc {real} && mount --bind {folder} /proc && exec "$0" "$@"'
            call = ground.start(mode, ["unshare", "-m", "sh", "-c", hide])
            call.finish(self.patience_s)
        finally:
            subprocess.run(["umount", folder], check=True)
            os.rmdir(folder)
        wrong = call.wrong_end() + ground.census(mode)
        return f"{self.count} links, {call.seconds:.0f} s, exit code {call.process.returncode}", wrong


class PidReuse:
    """A process of the target ends at a random instant, and another program gets its pid at once: it is not harmed."""
    name, weight = "pids come again", 2
    modes = ("attach {tree} --for 0s -f json={out}/r.json", "attach {tree} --for 0.3s -f json={out}/r.json",
             "stacks {tree} -f json={out}/stacks.json", "deadlock --pid {tree} --for 0.2s -f json={out}/r.json")

    def __init__(self, ground):
        self.ground = ground

    def round(self):
        ground, dice = self.ground, self.ground.dice
        job = subprocess.Popen([sys.executable, "-c", FORKING_JOB, "pool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        pid = int(job.stdout.readline())
        words = dice.choice(self.modes).replace("{tree}", str(pid))
        mode = Mode(words.split()[0], words)
        call = ground.start(mode)
        time.sleep(dice.uniform(0, 0.3))
        job.kill()
        job.communicate()
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
            last.write(str(pid - 1))
        stranger = subprocess.Popen(["sleep", "1000"])
        call.finish()
        wrong = []
        if not until(lambda: state_of(stranger.pid) == "S" and not tracer_of(stranger.pid, stranger.pid), limit_s=HANGS_S):
            wrong.append(f"the stranger is in state {state_of(stranger.pid)}")
        outcome = "the same pid" if stranger.pid == pid else "another pid"
        stranger.kill()
        stranger.wait()
        return outcome, wrong + call.wrong_end() + ground.census(mode)


class Company:
    """Two dlprobes, a debugger and strace look at the same target at once."""
    name, weight = "others look, too", 1

    def __init__(self, ground):
        self.ground = ground
        self.modes = [mode for mode in ground.modes if mode.stops or "{torch}" in mode.arguments]

    def round(self):
        ground, dice = self.ground, self.ground.dice
        mode = dice.choice(self.modes)
        job = ground.jobs["torch" if "{torch}" in mode.arguments else "busy"]
        company = dice.choice(("dlprobe", "debugger", "strace"))
        with contextlib.ExitStack() as others:
            if company == "debugger":
                others.enter_context(traced(dice.choice(job.pids)))
            elif company == "strace":
                tracer = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-e", "trace=getpid", "-p", str(job.pids[1])])
                others.callback(tracer.wait)
                others.callback(tracer.terminate)
                until(lambda: tracer_of(job.pids[1], job.pids[1]))
            else:
                second = ground.start(mode, out=ground.kept)
                others.callback(second.finish)
                time.sleep(dice.uniform(0, 0.1))
            done = ground.run(mode)
            wrong = done.wrong_end()
        if company == "dlprobe":
            wrong += second.wrong_end()
        return f"with {company}", wrong + ground.census(mode)
