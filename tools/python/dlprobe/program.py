"""Runs the program dlprobe and reads its report."""

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Union

from .report import Report, parse_report

Duration = Union[int, float, str]
"""Seconds, or as on the command line: "20s", "1500ms", "5m"."""


class DlprobeError(Exception):
    """dlprobe made no report: it was called wrongly, or what it should look at is not there."""

    def __init__(self, message: str, exit_code: Optional[int] = None, stderr: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """2 for what was asked, 3 or 4 for what dlprobe could not do, None if it did not come to an end."""
        self.stderr = stderr


class ProgramNotFound(DlprobeError):
    """There is no program dlprobe."""


class RunResult(NamedTuple):
    """What became of a command, and dlprobe's report of it (None if the command could not be started)."""

    returncode: int
    report: Optional[Report]


def find_program() -> str:
    """The path of dlprobe: that of this Python installation, else the first on PATH."""
    beside = os.path.join(sysconfig.get_path("scripts"), "dlprobe")
    found = beside if os.access(beside, os.X_OK) else shutil.which("dlprobe")
    if found is None:
        raise ProgramNotFound(f"there is no dlprobe, neither as {beside} nor on PATH: install its package, or put it on PATH")
    return found


def gate(level: str = "default", *, deadline: Optional[Duration] = None, workers: Optional[int] = None,
         batch_size: Optional[int] = None, sample_shape: Optional[str] = None, prefetch_factor: Optional[int] = None,
         start_method: Optional[str] = None, data: Union[str, "os.PathLike[str]", None] = None,
         fail_on: Optional[str] = None, arguments: Sequence[str] = (), program: Optional[str] = None,
         timeout: Optional[float] = None) -> Report:
    """Checks this machine before a job. `level` is quick, default or full; the rest are the options of
    `dlprobe gate`, and what is not named here goes into `arguments`.

    After `timeout` seconds (none by default: the deadline ends it) it is ended, and DlprobeError raised.
    """
    options: Dict[str, object] = {
        "--level": level, "--deadline": _duration(deadline), "--workers": workers, "--batch-size": batch_size,
        "--sample-shape": sample_shape, "--prefetch-factor": prefetch_factor, "--start-method": start_method,
        "--data": data, "--fail-on": fail_on}
    return _report_of(["gate", *_words(options), *arguments], program, timeout)


def attach(pid: int, *, watch_for: Optional[Duration] = None, fail_on: Optional[str] = None,
           arguments: Sequence[str] = (), program: Optional[str] = None, timeout: Optional[float] = None) -> Report:
    """Looks at a live process (a trainer or any of its workers; it may be this one) and its tree."""
    options: Dict[str, object] = {"--for": _duration(watch_for), "--fail-on": fail_on}
    return _report_of(["attach", str(pid), *_words(options), *arguments], program, timeout)


def run(command: Sequence[str], *, hang_after: Optional[Duration] = None, on_hang: Optional[str] = None,
        arguments: Sequence[str] = (), program: Optional[str] = None) -> RunResult:
    """Starts a command and watches it to its end. Its streams, and its exit code, are its own."""
    if isinstance(command, (str, bytes, os.PathLike)):
        raise TypeError("command is a list of words, as [\"python\", \"train.py\"], and no shell reads it; "
                        f"of a text, shlex.split() makes one: not {command!r}")
    options: Dict[str, object] = {"--hang-after": _duration(hang_after), "--on-hang": on_hang}
    with tempfile.TemporaryDirectory(prefix="dlprobe-") as folder:
        path = Path(folder) / "report.json"
        argv = [program or find_program(), "run", "-f", f"json={path}", *_words(options), *arguments, "--", *command]
        returncode = subprocess.run(argv, check=False).returncode
        if not path.exists():
            if returncode in (126, 127):
                return RunResult(returncode, None)
            raise DlprobeError(f"dlprobe run made no report (exit {returncode}): {' '.join(argv)}", returncode)
        return RunResult(returncode, _parse(path.read_text(encoding="utf-8"), returncode))


def _duration(value: Optional[Duration]) -> Optional[str]:
    return value if value is None or isinstance(value, str) else f"{round(value * 1000)}ms"


def _words(options: Dict[str, object]) -> List[str]:
    return [word for name, value in options.items() if value is not None for word in (name, str(value))]


def _parse(text: str, exit_code: int, stderr: str = "") -> Report:
    try:
        return parse_report(json.loads(text), exit_code)
    except (ValueError, KeyError, TypeError) as error:
        raise DlprobeError(f"dlprobe's report cannot be read: {error}", exit_code, stderr) from error


def _report_of(words: Sequence[str], program: Optional[str], timeout: Optional[float]) -> Report:
    with tempfile.TemporaryDirectory(prefix="dlprobe-") as folder:
        # A file of its own: where the user's dlprobe.toml has the others go does not matter.
        path = Path(folder) / "report.json"
        argv = [program or find_program(), words[0], "-f", f"json={path}", *words[1:]]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise DlprobeError(f"dlprobe {words[0]} did not end within {timeout} s") from error
        except FileNotFoundError as error:
            raise ProgramNotFound(f"cannot start {argv[0]}: {error.strerror}") from error
        stderr = done.stderr.decode("utf-8", "replace")
        if not path.exists():
            message = stderr.strip() or f"dlprobe {words[0]} ended with {done.returncode} and without a word"
            raise DlprobeError(message, done.returncode, stderr)
        return _parse(path.read_text("utf-8", "replace"), done.returncode, stderr)
