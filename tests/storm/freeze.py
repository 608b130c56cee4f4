"""Time goes wrong: dlprobe is stopped for a while, has other clocks than its target, or watches for long."""

import os
import signal
import time

from ground import HANGS_S, InTurns, Mode, read


class Stopped(InTurns):
    """SIGSTOP for dlprobe at random instants, and SIGCONT later: what it looked at goes on in the end."""
    name, weight = "dlprobe is stopped for a while", 1

    def blow(self, ground, dice, mode):
        call = ground.start(mode)
        for _ in range(dice.randint(1, 3)):
            time.sleep(dice.uniform(0, 0.2))
            if call.process.poll() is None:
                call.process.send_signal(signal.SIGSTOP)
                time.sleep(dice.choice((0, 0.01, 0.3, 2)))
                call.process.send_signal(signal.SIGCONT)
        call.finish()
        return f"exit code {call.process.returncode}", call.wrong_end() + ground.census(mode)


class Clocks(InTurns):
    """dlprobe in a time namespace: the clocks that count since boot are others than those of its target. The
    time of day has no namespaces, and is not set."""
    name, weight = "clocks are others", 1
    # Not before the start of the clock, which the kernel refuses.
    offsets = ("-60", "-10", "1", "3600", "100000000", "4000000000")

    def blow(self, ground, dice, mode):
        offsets = [f"--monotonic={dice.choice(self.offsets)}", f"--boottime={dice.choice(self.offsets)}"]
        done = ground.run(mode, ["unshare", "-T", *offsets, "-f"])
        wrong = done.wrong_end() + ground.census(mode)
        return f"exit code {done.process.returncode}", [f"{offsets}: {what}" for what in wrong]


class LongWatch:
    """attach with the shortest interval for as long as its share of the time: descriptors stay flat, and memory does
    once the recording is full: it keeps every sample of two minutes, and thins the older ones each half minute."""
    name, weight = "a long watch", 4
    least_s = 20
    full_s = 160
    more_kib = 8192  # one sample for each second of ten minutes stays, one for each ten of six hours
    more_files = 8  # that it opens when it first needs them

    def __init__(self, ground):
        self.ground = ground

    def round(self):
        ground = self.ground
        length = max(self.least_s, ground.share_s)
        mode = Mode("long watch", f"attach {{busy}} --for {length:.0f}s --interval 10ms -f json={{out}}/r.json")
        call = ground.start(mode)
        looks = []
        # Its looks are not counted: on a busy machine they take as long as what they look at.
        patience_s = 3 * length + HANGS_S
        while call.process.poll() is None and time.monotonic() < call.began + patience_s:
            pid = call.process.pid
            rss = read(f"/proc/{pid}/status").partition("VmRSS:")[2].split()
            try:
                looks.append((time.monotonic() - call.began, int(rss[0]), len(os.listdir(f"/proc/{pid}/fd"))))
            except (IndexError, FileNotFoundError):
                break
            time.sleep(0.5)
        call.finish()
        wrong = call.wrong_end() + ground.census(mode)
        is_full = length > 1.5 * self.full_s
        begins = self.full_s if is_full else self.least_s / 4
        early = [look for look in looks if begins / 2 < look[0] < begins]
        late = [look for look in looks if begins < look[0] < length]
        if not early or not late:
            return "ended early", [*wrong, f"ended after {call.seconds:.0f} s of {length:.0f} s"]
        kib, files = (max(look[which] for look in late) - max(look[which] for look in early) for which in (1, 2))
        if is_full and kib > self.more_kib:
            wrong.append(f"VmRSS grew by {kib} KiB between {begins:.0f} and {length:.0f} s")
        if files > self.more_files:
            wrong.append(f"{files} descriptors more after {length:.0f} s")
        memory = f"VmRSS {kib:+} KiB to {late[-1][1]} KiB" if is_full else "too short to judge memory"
        return f"{length:.0f} s, {memory}, descriptors {files:+} to {late[-1][2]}", wrong
