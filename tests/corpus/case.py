"""One case of the corpus, and tests of the values in its evidence."""
from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass
class Case:
    """One real job and what must be said of it. `job`, `before` and `beside` are lines of a script in
    cases/ with its arguments."""

    name: str
    job: str | None                              # None: dlprobe's own reference loader
    probe: str = "shm"
    needs: str = "torch"                         # or: torch1, torch2, python
    modules: tuple = ()                          # wheels that the job imports, beside torch
    device: str = ""                             # that the case needs
    sysctl: tuple = ()                           # name and value that the case needs, and does not set
    pace: str = "quick"                          # or: everywhere (quick, on every Python), slow
    mount_options: str = "size=64m"
    before: list = field(default_factory=list)   # jobs that ran to their end before
    beside: list = field(default_factory=list)   # jobs that live meanwhile, and say "ready"
    settle_s: float = 0                          # between the jobs before and the examination
    attach_after_s: float | None = None          # with --pid, this long after the job's start
    attach_when_ready: bool = False              # with --pid, once the job does what it claims to
    dlprobe_options: list = field(default_factory=list)
    leaves_job: bool = False                     # --for ends the watch, not the job
    first: str | tuple | None = None             # code of the first finding, or those allowed
    severity: str | None = None
    confidence: str | None = None
    evidence: dict = field(default_factory=dict)  # of the first finding: name -> test of the value
    also: list = field(default_factory=list)     # codes of later findings
    never: list = field(default_factory=list)
    silent: bool = False
    quiet: bool = False                          # nothing above info
    no_errors: bool = False
    verdicts: tuple = ("fail",)
    exit_codes: tuple = ()                       # of the job, passed through by the probe "run"
    form: str = "script"                         # how Python gets the job: or module, stdin, code, mpirun, venv
    python_path: str = ""                        # folder of cases/ for PYTHONPATH


def equals(wanted):
    return lambda value: value == wanted


def between(low, high):
    return lambda value: value is not None and low <= value <= high


def holds(text):
    return lambda value: value is not None and text in value
