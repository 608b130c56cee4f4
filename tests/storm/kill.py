"""SIGKILL at random instants: for dlprobe, and for what it looks at."""

import os
import time

from ground import HANGS_S, JOB_CODE, Mode, state_of, traced_threads, until
from terminal import Terminal

VICTIMS = ("trainer", "worker", "all")
HAD_ENDED, KILLED, HELD = "had ended", "killed", "killed while it held a thread"


class Length:
    """How long a mode takes, from what came of the kills: some are to come late, few too late."""
    most = 8  # of what does not end by itself

    def __init__(self):
        self.seconds, self.is_known = 0.3, False

    def learn(self, outcome):
        if outcome == HAD_ENDED:
            self.seconds, self.is_known = 0.75 * self.seconds, True
        elif outcome == KILLED:
            self.seconds = min(self.most, self.seconds * (1.05 if self.is_known else 2))


class KillDlprobe:
    """The job goes on; outputs are whole or absent; nothing stays but what the next dlprobe removes."""
    name, weight = "dlprobe is killed", 5

    def __init__(self, ground):
        self.ground = ground
        self.lengths = {}
        self.turns = ground.turns()

    def round(self):
        ground, mode = self.ground, self.turns.next()
        length = self.lengths.setdefault(mode, Length())
        after_s = ground.dice.uniform(0, length.seconds)
        outcome, wrong = Terminal(ground, mode).kill(after_s) if mode.in_terminal else self.kill(mode, after_s)
        length.learn(outcome)
        return outcome, wrong + ground.census(mode, was_killed=True)

    def kill(self, mode, after_s):
        ground, busy = self.ground, self.ground.jobs["busy"]
        call = ground.start(mode)
        if mode.starts_job and ground.dice.random() < 0.7:
            call.let_job_end()
        held = False
        if mode.stops and ground.dice.random() < 0.5:
            until(lambda: call.process.poll() is not None or traced_threads(busy), limit_s=HANGS_S)
            time.sleep(ground.dice.uniform(0, 0.001))
            held = bool(traced_threads(busy))
        else:
            time.sleep(after_s)
        ended = call.process.poll() is not None
        call.process.kill()
        call.process.wait()
        wrong = self.job_ends_as_it_would(call) if mode.starts_job and not ended else []
        call.finish()
        return HAD_ENDED if ended else HELD if held else KILLED, wrong + (call.wrong_end() if ended else [])

    def job_ends_as_it_would(self, call):
        """It goes on when dlprobe is killed: it gets ready, waits for its input, and ends with its own code."""
        line = call.process.stdout.readline()
        if not line:
            return []  # killed before the job began
        pid = int(line)
        call.let_job_end()
        # Its parent is gone: it is process 1's.
        if not until(lambda: state_of(pid) in ("Z", "gone"), limit_s=HANGS_S):
            return [f"the job {pid} does not end; it is in state {state_of(pid)}"]
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # dlprobe had seen its end
            return []
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
            time.sleep(ground.dice.uniform(0, self.lengths.get(mode.name, 0.3)))
            tree.kill(ground.dice.choice(VICTIMS))
            call.finish()
            self.lengths[mode.name] = call.seconds
        finally:
            tree.end()
        return f"exit code {call.process.returncode}", call.wrong_end() + ground.census(mode)
