"""--confirm on jobs of a real PyTorch: each remedy that dlprobe can set, where it helps and where it does not."""

import json
import os
import resource
import tempfile
import unittest

from limits_test import GROUP, NEEDS_GROUP
from support import NEEDS_TORCH, NEEDS_UNSHARE, TORCH_PYTHON, can_unshare, children, dlprobe, has_torch, report_of

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confirm_job.py")
FILE_SYSTEM = "sharing-strategy=file_system"
ONE_THREAD = "OMP_NUM_THREADS=1"
SPAWN = "start-method=spawn"


def soft_limit_of_256():
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def name_of(settings):
    """"start-method=spawn", "OMP_NUM_THREADS=1"; of numbers that depend on what was measured the kinds alone."""
    return ",".join(
        each["kind"] if each["value"].isdigit() and each["kind"] != "environment" else f"{each.get('name', each['kind'])}={each['value']}"
        for each in settings)


def told(report, code):
    """What came of each remedy of the finding: {"start-method=spawn": ("confirmed", the sentence)}."""
    findings = [finding for finding in report["findings"] if finding["code"] == code]
    assert findings, [(finding["code"], finding["message"]) for finding in report["findings"]]
    return {name_of(remedy["settings"]): (remedy["confirmed"]["outcome"], remedy["confirmed"]["text"])
            for remedy in findings[0]["remediation"] if "confirmed" in remedy}


@unittest.skipUnless(has_torch(), NEEDS_TORCH)
class ConfirmWithTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.marker = os.path.join(folder.name, "marker")

    def tearDown(self):
        self.assertEqual(children(), [])

    def report(self, probe, *options, job, **more):
        report = report_of(probe, "--confirm=1", *options, "--", TORCH_PYTHON, JOB, *job, **more)
        self.assertEqual(len(report["runs"]), 1)
        return report

    def expect(self, outcomes, **expected):
        """`expected`: the outcome of each remedy, "-" and "=" in its name as "_"."""
        seen = {name: outcome for name, (outcome, _) in outcomes.items()}
        self.assertEqual({name.replace("-", "_").replace("=", "_").replace(",", "_"): outcome for name, outcome in seen.items()},
                         expected, outcomes)

    def test_descriptors_of_kept_batches(self):
        report = self.report("fd", job=["descriptors"], preexec_fn=soft_limit_of_256)
        self.expect(told(report, "DLP0203"), open_files="confirmed", sharing_strategy_file_system="confirmed")
        # A second finding has remedies of its own.
        self.assertEqual(told(report, "DLP0202")["open-files"][0], "confirmed")

    def test_a_hard_limit_stays_and_the_sharing_strategy_helps(self):
        outcomes = told(self.report("fd", "--limit-fds", 256, job=["descriptors"]), "DLP0203")
        self.expect(outcomes, open_files="inconclusive", sharing_strategy_file_system="confirmed")
        self.assertIn("hard limit of 256", outcomes["open-files"][1])

    def test_a_sharing_strategy_does_not_help_where_files_are_opened(self):
        report = self.report("fd", job=["descriptors-and-files"], preexec_fn=soft_limit_of_256)
        outcomes = told(report, "DLP0202")
        self.assertEqual(outcomes["open-files"][0], "confirmed", outcomes)
        # By then it was for files: said of the finding that is about the limit, not proven for that about batches.
        batches = told(report, "DLP0203")
        self.assertEqual(batches[FILE_SYSTEM][0], "inconclusive", batches)
        self.assertIn("DLP0204", batches[FILE_SYSTEM][1])

    def test_descriptors_that_ran_out_once(self):
        report = self.report("fd", job=["descriptors", self.marker], preexec_fn=soft_limit_of_256)
        for outcome, text in told(report, "DLP0203").values():
            self.assertEqual(outcome, "inconclusive", text)

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_batches_that_do_not_fit(self):
        report = self.report("shm", "--shm-size", "32m", job=["shm"])
        self.expect(told(report, "DLP0102"), shm_size="confirmed", prefetch_factor_num_workers="confirmed")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_batches_that_are_all_kept_fit_nowhere(self):
        report = self.report("shm", "--shm-size", "32m", job=["shm-kept"])
        self.expect(told(report, "DLP0102"), shm_size="not-helped", prefetch_factor_num_workers="not-helped")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_batches_that_did_not_fit_once(self):
        report = self.report("shm", "--shm-size", "32m", job=["shm", self.marker])
        outcomes = told(report, "DLP0102")
        self.expect(outcomes, shm_size="inconclusive", prefetch_factor_num_workers="inconclusive")
        self.assertIn("it came in only 1 run of 2", outcomes["shm-size"][1])

    def test_a_lost_pool(self):
        report = self.report("deadlock", job=["pool"])
        self.expect(told(report, "DLP0302"), OMP_NUM_THREADS_1="confirmed", start_method_spawn="confirmed")

    def test_a_lost_pool_of_a_script_that_asks_for_two_threads(self):
        report = self.report("deadlock", job=["pool-insists"])
        self.expect(told(report, "DLP0302"), OMP_NUM_THREADS_1="not-helped", start_method_spawn="confirmed")

    def test_what_the_script_asks_for_is_overridden_as_the_remedy_says(self):
        outcomes = told(self.report("deadlock", job=["pool-asks-for-fork"]), "DLP0302")
        self.assertEqual(outcomes[SPAWN][0], "confirmed", outcomes)

    def test_a_variable_that_the_command_line_sets_itself(self):
        report = report_of("deadlock", "--confirm=1", "--", "env", "OMP_NUM_THREADS=2", TORCH_PYTHON, JOB, "pool-insists")
        outcome, text = told(report, "DLP0302")[ONE_THREAD]
        self.assertEqual(outcome, "inconclusive", text)
        self.assertIn("the command line itself sets OMP_NUM_THREADS=2", text)

    def test_a_pool_that_was_lost_once(self):
        outcomes = told(self.report("deadlock", job=["pool", self.marker]), "DLP0302")
        self.expect(outcomes, OMP_NUM_THREADS_1="inconclusive", start_method_spawn="inconclusive")
        self.assertIn("it came in only 1 run of 2", outcomes[ONE_THREAD][1])

    @unittest.skipUnless(GROUP, NEEDS_GROUP)
    def test_workers_that_together_take_too_much_memory(self):
        path = self.marker + ".json"
        dlprobe("run", "-f", f"json={path}", "--confirm=1", "--limit-memory", "1g", "--", TORCH_PYTHON, JOB, "memory")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.expect(told(report, "DLP0501"), prefetch_factor_num_workers="confirmed")


if __name__ == "__main__":
    unittest.main()
