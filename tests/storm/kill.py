"""SIGKILL at random instants: for dlprobe, and for what it looks at."""

import os
import time

from ground import HANGS_S, JOB_CODE, Mode, state_of, traced_threads, until
from terminal import Terminal

VICTIMS = ("trainer", "worker", "all")


class KillDlprobe:
    """The job goes on; outputs are whole or absent; nothing stays but what the next dlprobe removes."""
    name, weight = "dlprobe is killed", 5

    def __init__(self, ground):
        self.ground = ground
        self.lengths = {}
        self.spent = {mode: 0.0 for mode in ground.modes}

    def round(self):
        """Each mode gets as much time as the others."""
        ground, mode = self.ground, min(self.spent, key=self.spent.get)
        began = time.monotonic()
        if mode not in self.lengths:
            outcome, wrong = self.learn(mode)
        elif mode.in_terminal:
            outcome, wrong = Terminal(ground, mode).kill(ground.dice.uniform(0, self.lengths[mode]))
        else:
            outcome, wrong = self.kill(mode)
        wrong += ground.census(mode)
        self.spent[mode] += time.monotonic() - began
        return outcome, wrong

    def learn(self, mode):
        """How long one takes that nobody kills."""
        if mode.in_terminal:
            self.lengths[mode] = 2.0
            return "not killed", []
        call = self.ground.run(mode)
        self.lengths[mode] = call.seconds
        return "not killed", call.wrong_end()

    def kill(self, mode):
        ground, busy = self.ground, self.ground.jobs["busy"]
        call = ground.start(mode)
        held = False
        if mode.stops and ground.dice.random() < 0.5:
            until(lambda: call.process.poll() is not None or traced_threads(busy), limit_s=HANGS_S)
            time.sleep(ground.dice.uniform(0, 0.001))
            held = bool(traced_threads(busy))
        else:
            time.sleep(ground.dice.uniform(0, self.lengths[mode]))
        ended = call.process.poll() is not None
        call.process.kill()
        call.process.wait()
        wrong = self.job_ends_as_it_would(call) if mode.starts_job and not ended else []
        call.finish()
        return "had ended" if ended else "killed while it held a thread" if held else "killed", wrong

    def job_ends_as_it_would(self, call):
        """It goes on when dlprobe is killed: it gets ready, waits for its input, and ends with its own code."""
        line = call.process.stdout.readline()
        if not line:
            return []  # killed before the job began
        pid = int(line)
        if state_of(pid) not in "RSD":
            return [f"the job {pid} is in state {state_of(pid)}"]
        call.process.stdin.write(b"\n")
        call.process.stdin.flush()
        # Its parent is gone: it is process 1's.
        if not until(lambda: state_of(pid) in ("Z", "gone"), limit_s=HANGS_S):
            return [f"the job {pid} does not end"]
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return [] if status == JOB_CODE else [f"the job {pid} ended with {status}"]


class KillTarget:
    """dlprobe ends by itself, with a report or a line that says why there is none."""
    name, weight = "the target is killed", 3
    modes = [Mode("attach", "attach {tree} --for 0s -f json={out}/r.json --record {out}/r.dlrec"),
             Mode("attach for 0.3 s", "attach {tree} --for 0.3s -f json={out}/r.json -f html={out}/r.html"),
             Mode("stacks", "stacks {tree} -f json={out}/stacks.json"),
             Mode("shm", "shm --pid {tree} --for 0.2s -f json={out}/r.json"),
             Mode("top --once", "top {tree} --once"),
             Mode("ps", "ps -f json={out}/r.json")]

    def __init__(self, ground):
        self.ground = ground
        self.lengths = {}

    def round(self):
        ground = self.ground
        mode = ground.dice.choice(self.modes)
        tree = ground.trees.make()
        mode = Mode(mode.name, mode.arguments.replace("{tree}", str(tree.pids[0])))
        try:
            call = ground.start(mode)
            if mode.name in self.lengths:
                time.sleep(ground.dice.uniform(0, self.lengths[mode.name]))
                victim = ground.dice.choice(VICTIMS)
                tree.kill(victim)
            else:
                victim = "nobody"
            call.finish()
            self.lengths.setdefault(mode.name, call.seconds)
        finally:
            tree.end()
        return f"exit code {call.process.returncode}", call.wrong_end() + ground.census(mode)
