#!/usr/bin/env python3
"""Runs one case of the corpus: a real job on a real PyTorch, in a mount namespace with a /dev/shm of
its own, watched by dlprobe; then holds the report against what must be said.

Exit code: 0 as expected, 1 not, 77 skipped (the reason is printed). Standard library only.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from catalogue import CASES, codes_of, essentials
from threads import Claims

SKIPPED = 77
HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 100
READY_LIMIT_S = 60


class Mismatch(Exception):
    """The report does not say what it must."""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def in_private_namespace(arguments):
    """Runs this program again where its mounts are its own. Gives its exit code."""
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        skip(f"needs a mount namespace of its own (run as root): {probe.stderr.strip()}")
    command = ["unshare", "-m", sys.executable, __file__, "--inside", *arguments]
    return subprocess.run(command, check=False).returncode


def mount_shm(case):
    subprocess.run(["mount", "-t", "tmpfs", "-o", case.mount_options, "tmpfs", "/dev/shm"], check=True)


class Stage:
    """The processes of one case: jobs beside, dlprobe, and what it reports."""

    def __init__(self, options, case, folder):
        self.options = options
        self.case = case
        self.folder = folder
        self.background = []
        self.there_before = []
        self.environment = dict(os.environ, TMPDIR=str(folder), PYTHONDONTWRITEBYTECODE="1",
                                OMP_NUM_THREADS="1")
        if case.form == "module":
            self.environment["PYTHONPATH"] = str((HERE / "cases" / case.job.split()[0]).parent)
        if case.python_path:
            self.environment["PYTHONPATH"] = str(HERE / "cases" / case.python_path)

    def job(self, line):
        """The command of a job: a script of cases/ with its arguments."""
        script, *arguments = line.split()
        path = HERE / "cases" / script
        program = {"script": [str(path)], "mpirun": [str(path)], "venv": [str(path)], "module": ["-m", path.name], "stdin": ["-"],
                   "code": ["-c", path.read_text() if path.is_file() else ""]}[self.case.form]
        python = self.options.python if self.case.form != "venv" else str(self.venv() / "bin" / "python")
        launcher = ["mpirun", "--allow-run-as-root", "-n", "1"] if self.case.form == "mpirun" else []
        return [*launcher, python, *program, *arguments]

    def venv(self):
        """A virtual environment of the case's Python."""
        place = self.folder / "venv"
        if not place.exists():
            subprocess.run([self.options.python, "-m", "venv", "--without-pip", str(place)], check=True)
        return place

    def job_input(self):
        """Standard input of a job: its program, where Python reads it from there."""
        if self.case.form != "stdin":
            return contextlib.nullcontext(subprocess.DEVNULL)
        return open(HERE / "cases" / self.case.job.split()[0], "rb")

    def run_before(self, line):
        """A job that runs to its end, which may be a violent one."""
        subprocess.run(self.job(line), env=self.environment, check=False, timeout=TIME_LIMIT_S,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_beside(self, line):
        """A job that lives on; returns once it says "ready", or at once where it says nothing."""
        log = open(self.folder / "beside.log", "wb")
        process = subprocess.Popen(self.job(line), env=self.environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, text=True)
        self.background.append(process)
        return process

    def wait_ready(self, process):
        for line in process.stdout:
            if line.strip() == "ready":
                return
        raise Mismatch("the job beside ended before it was ready: "
                       + (self.folder / "beside.log").read_text(errors="replace")[-500:])

    def wait_claims(self, process):
        """Until every thread that the job names does what it claims. Gives the process to look at."""
        claims = Claims(process.pid)
        for line in process.stdout:
            if claims.take(line):
                break
        else:
            raise Mismatch("the job ended before it hung: "
                           + (self.folder / "beside.log").read_text(errors="replace")[-500:])
        if wrong := claims.wait(READY_LIMIT_S):
            raise Mismatch(f"the job is not as it claims to be: {wrong}")
        return claims.target

    def watch(self):
        """dlprobe on the case's job. Gives its exit code and its report."""
        report = self.folder / "report.json"
        command = [self.options.dlprobe, self.case.probe, "-f", f"json={report}", "--record",
                   str(self.folder / "case.dlrec"), *self.case.dlprobe_options]
        pid_option = [] if self.case.probe == "attach" else ["--pid"]
        if self.case.attach_when_ready:
            command += [*pid_option, str(self.wait_claims(self.start_beside(self.case.job)))]
        elif self.case.attach_after_s is not None:
            process = self.start_beside(self.case.job)
            time.sleep(self.case.attach_after_s)
            command += [*pid_option, str(process.pid)]
        elif self.case.job:
            command += ["--", *self.job(self.case.job)]
        with open(self.folder / "dlprobe.log", "wb") as log, self.job_input() as job_input:
            done = subprocess.run(command, env=self.environment, stdin=job_input, stdout=log,
                                  stderr=log, check=False, timeout=TIME_LIMIT_S)
        if not report.exists():
            text = (self.folder / "dlprobe.log").read_text(errors="replace")
            raise Mismatch(f"no report; dlprobe ended with {done.returncode} and said:\n{text[-2000:]}")
        return done.returncode, json.loads(report.read_text())

    def keep_files(self, target):
        """Copies what explains a failure: report, recording, logs."""
        os.makedirs(target, exist_ok=True)
        for path in self.folder.iterdir():
            if path.is_file():
                shutil.copy(path, target)

    def clean_up(self):
        """Ends what was left on purpose: only processes of this namespace."""
        for process in self.background:
            if process.stdin:
                process.stdin.close()
        for pid in self.neighbours():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.background:
            process.wait(timeout=10)

    @staticmethod
    def neighbours():
        """The other processes of this mount namespace."""
        here = os.stat("/proc/self/ns/mnt").st_ino
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if int(name) != os.getpid() and os.stat(f"/proc/{name}/ns/mnt").st_ino == here:
                    with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                        if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                            found.append(int(name))
            except OSError:
                continue  # it ended meanwhile
        return found


def evidence_of(finding):
    return {fact["name"]: fact.get("value") for fact in finding["evidence"]}


def is_litter_of(finding, failure):
    """Files that the job itself left when it failed are really there: a worker of PyTorch that ends in the middle
    of making a segment leaves it. They must be said to be a consequence."""
    return finding["code"] == "DLP0103" and finding.get("consequence_of") == failure


def check_first(case, report):
    findings = report["findings"]
    said = [f"{each['code']} {each['severity']} {each['confidence']}: {each['message']}" for each in findings]
    if not findings:
        raise Mismatch(f"no finding, expected {case.first} first")
    first = findings[0]
    codes = codes_of(case)
    if first["code"] not in codes:
        raise Mismatch(f"first finding: {first['code']}, expected {' or '.join(codes)}; all: {said}")
    for key, wanted in (("severity", case.severity), ("confidence", case.confidence)):
        if wanted is not None and first[key] != wanted:
            raise Mismatch(f"first finding: {key} {first[key]}, expected {wanted}; all: {said}")
    facts = evidence_of(first)
    for name, test in case.evidence.items():
        if not test(facts.get(name)):
            raise Mismatch(f"evidence {name} is {facts.get(name, 'missing')}; all: {facts}")
    for code in case.also:
        if code not in [each["code"] for each in findings[1:]]:
            raise Mismatch(f"{code} is missing; all: {said}")
    if not first["remediation"]:
        raise Mismatch("the first finding has no remedy")


def check(case, exit_code, report):
    said = [f"{each['code']} {each['severity']} {each['confidence']}: {each['message']}"
            for each in report["findings"]]
    if case.first is not None:
        check_first(case, report)
    elif case.silent and said:
        raise Mismatch(f"nothing should be found; found: {said}")
    for each in report["findings"]:
        if case.no_errors and each["severity"] == "error":
            raise Mismatch(f"no finding of severity error may be there; found: {said}")
        if case.quiet and each["severity"] != "info":
            raise Mismatch(f"nothing above info may be said here; found: {said}")
        if each["code"] in case.never and not is_litter_of(each, case.first):
            raise Mismatch(f"{each['code']} must not be said here: {said}")
    # Silence must not come from seeing nothing. Other tests run beside this one, and dlprobe says that.
    unseen = [(each["what"], each["why"]) for each in report["limitations"] if each["what"] != "the speed on an idle machine"]
    if case.probe == "deadlock" and unseen:
        raise Mismatch(f"something was not seen: {unseen}")
    verdict = report["summary"]["verdict"]
    if verdict not in case.verdicts:
        raise Mismatch(f"verdict {verdict}: {report['summary']['headline']}; expected {case.verdicts}")
    if case.probe == "run":  # passes the job's own code through
        if case.exit_codes and exit_code not in case.exit_codes:
            raise Mismatch(f"exit code {exit_code} of the job, expected {case.exit_codes}")
    elif exit_code != {"pass": 0, "warn": 0, "fail": 1, "incomplete": 3}[verdict]:
        raise Mismatch(f"exit code {exit_code} with verdict {verdict}")


def check_witness(stage):
    """A hook that fails is silent but for its word in the recording."""
    recording = (stage.folder / "case.dlrec").read_bytes()
    at = recording.find(b"hook-failed")
    if at >= 0:
        raise Mismatch(f"a hook of the witness failed: {recording[at:at + 300]!r}")


def check_nothing_left(stage):
    """What dlprobe watched may go on; what it started itself, may not."""
    if stage.case.attach_when_ready or stage.case.attach_after_s is not None or stage.case.leaves_job:
        return
    deadline = time.monotonic() + 4  # a torch_shm_manager ends 2 s after its last client
    while True:
        left = [pid for pid in stage.neighbours() if pid not in stage.there_before]
        if not left:
            return
        if time.monotonic() > deadline:
            raise Mismatch(f"processes are left behind: {left}")
        time.sleep(0.2)


def note_outcome(options, case, report, why):
    """For tests/corpus/run: what was to be said, and what was."""
    folder = os.environ.get("DLPROBE_CORPUS_OUTCOMES")
    if not folder:
        return
    findings = [{key: each[key] for key in ("code", "severity", "confidence")} for each in (report or {"findings": []})["findings"]]
    version = subprocess.run([options.python, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    outcome = {"case": case.name, "python": version, "findings": findings, "reported": report is not None, "why": why}
    Path(folder, f"{case.name}-{os.getpid()}.json").write_text(json.dumps(outcome), encoding="utf-8")


def run_inside(options, case):
    mount_shm(case)
    folder = Path(tempfile.mkdtemp(prefix="dlprobe-corpus-"))
    stage = Stage(options, case, folder)
    report = None
    try:
        for line in case.before:
            stage.run_before(line)
        time.sleep(case.settle_s)
        for line in case.beside:
            stage.wait_ready(stage.start_beside(line))
        stage.there_before = stage.neighbours()
        exit_code, report = stage.watch()
        check(case, exit_code, report)
        check_witness(stage)
        check_nothing_left(stage)
        if options.save_recording:
            shutil.copy(folder / "case.dlrec", options.save_recording)
        note_outcome(options, case, report, None)
        print(f"{case.name}: {report['summary']['headline']}")
        return 0
    except (Mismatch, subprocess.TimeoutExpired) as error:
        note_outcome(options, case, report, str(error))
        print(f"{case.name}: {error}")
        if options.keep:
            stage.keep_files(options.keep)
        return 1
    finally:
        stage.clean_up()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print name, probe, need, pace and whether tools/check runs it")
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--dlprobe", help="the program to test")
    parser.add_argument("--python", help="an interpreter that has torch")
    parser.add_argument("--keep", help="a folder for the report and recording of a failed case")
    parser.add_argument("--save-recording", help="where to put the recording of a case that went as expected")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        chosen = essentials()
        for case in CASES.values():
            print(case.name, case.probe, case.needs, case.pace, "check" if case.name in chosen else "full")
        return 0
    case = CASES[options.case]
    if not options.inside:
        if not os.path.exists(options.python):
            skip(f"{options.python} is not there (tools/check --full makes it)")
        if case.device and not os.access(case.device, os.R_OK | os.W_OK):
            skip(f"{case.device} is not there or may not be opened (run as root, with that device)")
        if case.sysctl and Path("/proc/sys", case.sysctl[0]).read_text(encoding="ascii").strip() != case.sysctl[1]:
            skip(f"sysctl {case.sysctl[0]} is not {case.sysctl[1]}")
        for module in (() if case.needs == "python" else ("torch",)) + case.modules:
            found = subprocess.run([options.python, "-c", f"import {module}"], capture_output=True, check=False)
            if found.returncode != 0:
                skip(f"{options.python} has no {module} (tools/check --full installs it)")
        return in_private_namespace(sys.argv[1:])
    return run_inside(options, case)


if __name__ == "__main__":
    sys.exit(main())
