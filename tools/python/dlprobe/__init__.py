"""dlprobe from Python: it runs the program of that name and gives back its report.

    import dlprobe

    report = dlprobe.gate(level="quick", workers=8)
    if report.verdict != "pass":
        print(report)

    report = dlprobe.attach(pid)          # a job that hangs, or any other
    for finding in report.findings:
        print(finding.code, finding.message)

A finding is no exception; that there is no report is one: DlprobeError.

In a notebook `%load_ext dlprobe`, then `%dlprobe attach PID`; in a shell `python -m dlprobe attach PID`.
"""

from .program import DlprobeError, ProgramNotFound, RunResult, attach, find_program, gate, run
from .report import Check, Finding, Report

__all__ = ["Check", "DlprobeError", "Finding", "ProgramNotFound", "Report", "RunResult", "attach", "find_program",
           "gate", "run"]


def load_ipython_extension(ipython) -> None:
    """`%load_ext dlprobe` in IPython and Jupyter: brings the magic %dlprobe."""
    from .notebook import magic  # IPython is there only in its own session

    ipython.register_magic_function(magic, "line", "dlprobe")
