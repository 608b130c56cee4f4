"""What dlprobe asks the kernel for is refused: system calls that fail one after the other, and limits that are too small."""

import collections
import os
import re

from ground import InTurns, Mode

ERRORS = ("ENOSPC", "EMFILE", "ENOMEM", "EINTR", "EIO", "EAGAIN")
# The end of a process; and calls that the kernel never lets fail, or not so: glibc takes the address that brk gives as
# it is, and ends a program whose futex is damaged by SIGABRT.
NEVER_FAIL = {"execve", "exit", "exit_group", "rt_sigreturn", "restart_syscall", "futex", "brk", "set_robust_list", "rseq",
              "set_tid_address", "arch_prctl"}
CALL = re.compile(r"^(?:\d+ +)?(\w+)\(", re.MULTILINE)
# What the dynamic loader says where it cannot start the program; its exit code is 127.
LOADER_WORDS = (b"error while loading shared libraries", b"cannot allocate", b"cannot create")
LOADER_CODE = 127
FOLLOW = ("strace", "-qq", "-f", "-b", "execve")  # its threads and children, but not what these become


class FailingCalls(InTurns):
    """One system call of dlprobe fails once, or from then on. It ends with a code that is documented."""
    name, weight = "system calls fail", 5

    def __init__(self, ground):
        super().__init__(ground)
        self.calls = {}

    def calls_of(self, mode):
        """How often it makes which."""
        if mode not in self.calls:
            trace = os.path.join(self.ground.folder, "trace")
            self.ground.run(mode, [*FOLLOW, "-o", trace])
            with open(trace, encoding="latin1") as file:
                counts = collections.Counter(CALL.findall(file.read()))
            self.calls[mode] = {name: count for name, count in counts.items() if name not in NEVER_FAIL}
        return self.calls[mode]

    def blow(self, ground, dice, mode):
        calls = self.calls_of(mode)
        call = dice.choice(sorted(calls))
        error = dice.choice(ERRORS)
        # No machine interrupts a call for ever.
        lasting = "+" if error != "EINTR" and dice.random() < 0.4 else ""
        when = f"{dice.randint(1, calls[call])}{lasting}"
        inject = f"inject={call}:error={error}:when={when}"
        done = ground.run(mode, [*FOLLOW, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject])
        code = done.process.returncode
        if code == LOADER_CODE and any(words in done.stderr for words in LOADER_WORDS):
            return "did not start", ground.census(mode)
        wrong = done.wrong_end() + ground.census(mode)
        return f"exit code {code}", [f"{inject}: {what}" for what in wrong]


class Limits(InTurns):
    """ulimit of a random kind and size."""
    name, weight = "limits are tiny", 2
    kinds = [("-s", (64, 8192)), ("-n", (3, 40)), ("-v", (10_000, 400_000)), ("-f", (0, 200)), ("-d", (100, 50_000)),
             ("-i", (0, 4)), ("-l", (0, 4)), ("-u", (0, 8))]
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")

    def blow(self, ground, dice, mode):
        kind, (least, most) = dice.choice(self.kinds)
        size = least if dice.random() < 0.1 else round(least * (most / least) ** dice.random()) if least else dice.randint(least, most)
        limit = f"ulimit {kind} {size}"
        # Root may have any number of processes.
        become = self.as_nobody if kind == "-u" else ()
        if become:
            os.chmod(ground.out, 0o777)
        wrap = ["bash", "-c", f'{limit} && exec "$0" "$@"', *become]
        done = ground.run(mode, wrap)
        os.chmod(ground.out, 0o700)
        code = done.process.returncode
        wrong = ground.census(mode)
        if code == LOADER_CODE and any(words in done.stderr for words in LOADER_WORDS):
            return "did not start", wrong
        if code < 0 and ground.run(Mode("--version", "--version"), wrap).process.returncode < 0:
            return "did not start", wrong
        if mode.starts_job and code >= 0:  # the job has the limit, too, and may fail by it
            return f"exit code {code}", wrong
        return f"exit code {code}", [f"{limit}: {what}" for what in done.wrong_end() + wrong]
