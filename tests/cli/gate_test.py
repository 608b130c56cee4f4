"""The gate on real limits: each check fails where its cause is there, and passes where it is not."""

import contextlib
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import DLPROBE, HAS_LOADER, NEEDS_UNSHARE, TIMEOUT, can_unshare, dlprobe, in_private_shm, report_of, small_shm

NO_LOADER = "the reference loader was not built (needs libtorch and OpenCV)"
PIDS = Path("/sys/fs/cgroup/pids")


def checks_of(report):
    return {check["id"]: check["status"] for check in report["checks"]}


def quick(*arguments, **options):
    return report_of("gate", "--level", "quick", *arguments, **options)


class Quick(unittest.TestCase):
    def test_a_machine_on_which_nothing_is_wrong(self):
        report = quick("--workers", "1", "--data", "/usr/include")
        checks = checks_of(report)
        self.assertGreater(len(checks), 12)
        self.assertEqual(report["invocation"]["exit_code"], 0, report["summary"])
        self.assertEqual(checks.pop("loader.fork.file_descriptor"), "skipped")
        self.assertEqual(set(checks.values()) - {"warn"}, {"pass"}, checks)

    def test_a_data_folder_that_is_not_there(self):
        done = dlprobe("gate", "--level", "quick", "--data", "/nowhere/at/all")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"DLP0607", done.stdout)

    def test_a_data_folder_without_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(checks_of(quick("--data", folder))["host.data-folder"], "fail")
            inner = Path(folder) / "train"
            inner.mkdir()
            (inner / "a.png").write_bytes(b"x")
            self.assertEqual(checks_of(quick("--data", folder))["host.data-folder"], "pass")

    def test_a_temporary_folder_that_is_not_there(self):
        environment = dict(os.environ, TMPDIR="/nowhere/at/all")
        report = quick(env=environment)
        self.assertEqual(checks_of(report)["host.temporary-folder"], "fail")
        self.assertIn("DLP0608", json.dumps(report["findings"]))

    def test_nothing_is_left_in_the_temporary_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            quick(env=dict(os.environ, TMPDIR=folder))
            self.assertEqual(os.listdir(folder), [])

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_small_dev_shm(self):
        done = in_private_shm(small_shm("16m"), ["gate", "--level", "quick", "--json", "--workers", "8"])
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, checks_of(report)["shm.size"]), (1, "fail"))
        self.assertEqual(report["findings"][0]["code"], "DLP0101")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_full_temporary_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            done = in_private_shm(f"mount -t tmpfs -o size=1m tmpfs {folder}", ["gate", "--level", "quick", "--json"],
                                  env=dict(os.environ, TMPDIR=folder))
        self.assertEqual(checks_of(json.loads(done.stdout))["host.temporary-folder"], "warn")

    def test_a_limit_of_open_files(self):
        done = subprocess.run(["prlimit", "--nofile=24:24", DLPROBE, "gate", "--level", "quick", "--workers", "16", "--json"],
                              capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(checks_of(json.loads(done.stdout))["limits.open-files"], "fail", done.stderr)

    @unittest.skipUnless(os.cpu_count() > 1, "needs two CPUs")
    def test_one_cpu_of_several(self):
        done = subprocess.run(["taskset", "-c", "0", DLPROBE, "gate", "--level", "quick", "--workers", "4", "--json"],
                              capture_output=True, timeout=TIMEOUT, check=False)
        report = json.loads(done.stdout)
        self.assertEqual(checks_of(report)["cpu.usable"], "warn")
        self.assertEqual(report["summary"]["verdict"], "warn")

    @unittest.skipUnless(os.access(PIDS, os.W_OK), "needs a pids cgroup (v1) that may be written to: run as root")
    def test_a_limit_of_processes(self):
        group = PIDS / f"dlprobe-gate-{os.getpid()}"
        group.mkdir()
        try:
            (group / "pids.max").write_text("8")
            command = f'echo $$ > {group}/cgroup.procs; exec "$0" gate --level quick --workers 4 --json'
            done = subprocess.run(["sh", "-c", command, DLPROBE], capture_output=True, timeout=TIMEOUT, check=False)
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
        self.assertEqual(checks_of(json.loads(done.stdout))["limits.processes"], "warn")

    def test_bad_input(self):
        for arguments in (["--deadline", "soon"], ["--deadline", "1ms"], ["--level", "deep"], ["--", "sleep", "1"],
                          ["-f", "html=/nowhere/x.html"], ["--workers", "many"]):
            done = dlprobe("gate", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
            self.assertTrue(done.stderr.startswith(b"dlprobe: "), arguments)

    def test_every_format(self):
        for name in ("junit", "sarif", "prometheus", "nagios", "npd", "html", "markdown", "github", "gitlab", "jsonl"):
            done = dlprobe("gate", "--level", "quick", "--workers", "1", "-f", name)
            self.assertEqual(done.returncode, 0, name)
            self.assertGreater(len(done.stdout), 2, name)


@unittest.skipUnless(HAS_LOADER, NO_LOADER)
class Default(unittest.TestCase):
    def test_a_short_run_of_the_loader(self):
        report = report_of("gate", "--workers", "1", "--sample-shape", "3x32x32", "--deadline", "60s")
        self.assertEqual(checks_of(report)["loader.fork.file_descriptor"], "pass", report["summary"])
        self.assertEqual(report["invocation"]["exit_code"], 0, report["summary"])

    def test_what_the_deadline_ends_is_incomplete(self):
        done = dlprobe("gate", "--workers", "1", "--batches", "100000", "--deadline", "2s", "-f", "json", "-f", "human=/dev/stderr")
        report = json.loads(done.stdout)
        self.assertNotIn(b"goes on", done.stderr)
        self.assertEqual(checks_of(report)["loader.fork.file_descriptor"], "incomplete")
        self.assertEqual(report["invocation"]["exit_code"], 3)
        self.assertEqual(report["summary"]["verdict"], "incomplete")
        # Whose doing it was, and what helps.
        self.assertIn("its time was up before its end", report["summary"]["headline"])
        self.assertIn("--deadline 60s", json.dumps(report["limitations"]))

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_loader_that_would_not_fit_is_not_started(self):
        done = in_private_shm(small_shm("16m"), ["gate", "--json", "--workers", "8"])
        report = json.loads(done.stdout)
        self.assertEqual(checks_of(report)["loader.fork.file_descriptor"], "fail")
        self.assertEqual(done.returncode, 1)

    def test_a_recording_of_it_replays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gate.dlrec")
            live = dlprobe("gate", "--workers", "1", "--sample-shape", "3x32x32", "--json", "--record", path, "--deadline", "60s")
            self.assertEqual(dlprobe("replay", path, "--json").stdout, live.stdout)


if __name__ == "__main__":
    unittest.main()
