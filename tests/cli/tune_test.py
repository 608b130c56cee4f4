"""dlprobe tune on the reference loader: the report's structure, never its timing; replay; bad input is in bad_input_test."""

import json
import os
import resource
import tempfile
import unittest

from support import HAS_LOADER, NEEDS_TORCH, TORCH_PYTHON, children, dlprobe, has_torch

NEEDS_LOADER = "needs the reference loader: build with -DDLPROBE_REFERENCE_LOADER=ON"
# Small, so that a run takes little more than the start of the program.
LOADER = ["--batch-size", "4", "--sample-shape", "3x32x32"]
INCOMPLETE = 3
MOST_SECONDS = 60


def tuned(seconds, *arguments):
    """dlprobe tune with as much time as this machine needs: a busy one starts fewer loaders in a second."""
    while True:
        done = dlprobe("tune", "--for", f"{seconds}s", *arguments)
        if done.returncode != INCOMPLETE or seconds > MOST_SECONDS:
            return done
        seconds *= 3


@unittest.skipUnless(HAS_LOADER, NEEDS_LOADER)
class Sweep(unittest.TestCase):
    def setUp(self):
        self.before = children()

    def tearDown(self):
        self.assertEqual(children(), self.before, "something was left behind")

    def test_a_table_with_a_recommendation(self):
        report = json.loads(tuned(12, *LOADER, "--json").stdout)
        tune = report["tune"]
        self.assertEqual(report["invocation"]["probe"], "tune")
        self.assertIn("recommended", tune)
        self.assertIn(report["summary"]["verdict"], ("pass", "warn"))
        self.assertTrue(tune["line"].startswith("DataLoader(..., num_workers="), tune["line"])
        self.assertIn(tune["limit"]["what"], ("consumer", "loader", "cpus", "unknown"))
        measured = [row for row in tune["settings"] if row["outcome"] == "measured"]
        self.assertGreaterEqual(len(measured), 2)
        for row in measured:
            self.assertGreater(row["batches_per_s"], 0)
            self.assertGreater(row["plus_minus_share"], 0)
        self.assertIn("step-alone", [row["variant"] for row in tune["settings"]])
        recommended = tune["recommended"]
        self.assertGreaterEqual(recommended["share_of_best"], 0.95)
        smaller = [row for row in measured if row["variant"] == "whole" and row["workers"] < recommended["workers"]]
        self.assertTrue(all(row["share_of_best"] < 0.95 for row in smaller), smaller)
        self.assertEqual({check["code"] for check in report["checks"]}, {"DLP0602"}, "nobody said what the job has now")

    def test_what_is_named_is_tried_and_a_replay_says_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tune.dlrec")
            live = tuned(8, "--workers", "1,2", "--prefetch-factor", "1", *LOADER,
                         "--record", path, "--json")
            self.assertEqual(live.returncode, 0, live.stderr)
            again = dlprobe("replay", path, "--json")
            self.assertEqual(again.stdout, live.stdout)
            text = dlprobe("replay", path).stdout.decode()
        for expected in ("Recommended", "DataLoader(..., num_workers=", "Settings"):
            self.assertIn(expected, text)

    def test_what_does_not_fit_is_not_started(self):
        # A descriptor for each tensor in flight: more than a process may have open.
        done = dlprobe("tune", "--for", "6s", "--workers", "1,512", "--json", *LOADER,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        rows = json.loads(done.stdout)["tune"]["settings"]
        refused = [row for row in rows if row["outcome"] == "not-started"]
        self.assertEqual([row["workers"] for row in refused], [512])
        self.assertIn("the limit is 256", refused[0]["why"])

    def test_a_loader_that_cannot_run_is_a_usage_error(self):
        done = dlprobe("tune", "--for", "5s", "--data", "/no/such/folder")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"/no/such/folder", done.stderr)


# Samples that take a worker 20 ms: so that two workers are twice as fast as one on any machine.
JOB = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Samples(Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.zeros(4)
if __name__ == "__main__":
    print("the job's own output")
    for batch in DataLoader(Samples(), batch_size=2, num_workers=1):
        pass
"""


@unittest.skipUnless(has_torch(), NEEDS_TORCH)
class Command(unittest.TestCase):
    def test_the_loaders_of_a_script_get_other_settings(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(JOB)
            script.flush()
            done = tuned(20, "--json", "--prefetch-factor", "2", "--workers", "1,2", "--", TORCH_PYTHON, script.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"own output", done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["subject"]["kind"], "command")
        measured = {row["workers"]: row for row in report["tune"]["settings"] if row["outcome"] == "measured"}
        self.assertEqual(set(measured), {1, 2})
        for row in measured.values():
            self.assertNotIn("shm_forecast_bytes", row, "nobody said what a batch takes")
        self.assertEqual(report["tune"]["present"]["workers"], 1)
        self.assertEqual(children(), [])


if __name__ == "__main__":
    unittest.main()
