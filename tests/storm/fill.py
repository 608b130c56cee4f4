"""Nowhere to write: full disks, no inodes, read-only folders, closed and broken streams."""

import os
import subprocess

from ground import InTurns


class FullDisk(InTurns):
    """The folder of the outputs, and of TMPDIR, is a file system that is too small. Outputs are whole or absent."""
    name, weight = "the disk is full", 2

    def blow(self, ground, dice, mode):
        options = dice.choice([f"size={dice.randint(1, 100) * 4}k", f"size=100m,nr_inodes={dice.randint(1, 5)}", "size=1m,ro"])
        places = dice.choice([(ground.out,), (ground.scratch,), (ground.out, ground.scratch)])
        ground.clear_out()
        for place in places:
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
        try:
            done = ground.run(mode)
            wrong = done.wrong_end()
            for name in os.listdir(ground.out):
                wrong += ground.half_written(os.path.join(ground.out, name), mode)
            wrong += [f"left: {name} in TMPDIR" for name in os.listdir(ground.scratch)]
        finally:
            for place in places:
                subprocess.run(["umount", place], check=True)
        wrong += ground.census(mode)
        return f"exit code {done.process.returncode}", [f"{options} for {places}: {what}" for what in wrong]


class ClosedStreams(InTurns):
    """Standard streams that are closed, full, broken or read-only. No word may end up in a report."""
    name, weight = "streams are closed", 1
    inputs = ("", "<&-", "</dev/null")
    outputs = ("", ">&-", ">/dev/full", ">/dev/null", "> >(exec <&-)")
    errors = ("", "2>&-", "2>/dev/full", "2> >(exec <&-)")

    def blow(self, ground, dice, mode):
        streams = " ".join(dice.choice(kind) for kind in (self.inputs, self.outputs, self.errors))
        done = ground.run(mode, ["bash", "-c", f'exec "$0" "$@" {streams}'])
        wrong = done.wrong_end(more_codes=(1, 120) if mode.starts_job else ())  # the job's Python cannot write, either
        wrong += ground.census(mode)
        return f"exit code {done.process.returncode}", [f"{streams}: {what}" for what in wrong]
