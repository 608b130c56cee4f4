"""torchrun and mpirun by the recipes, with a real PyTorch: what the ranks' reports say, also when one rank hangs or dies."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import DLPROBE, HAS_LOADER, NEEDS_TORCH, TORCH_PYTHON, has_torch

RECIPES = Path(os.environ["DLPROBE_RECIPES"]) / "launchers"
# Debian's torch 1.13 cannot start torchrun under Python 3.11.
NEW_TORCH = os.environ.get("DLPROBE_TORCH_PYTHON", "")
NO_NEW_TORCH = "needs torch 2.13 in build/torch-2.13: tools/check --full"
NO_LOADER = "the reference loader was not built (needs libtorch and OpenCV)"
LIMIT = 240

# On rank HANG_RANK a worker waits for itself, on DIE_RANK one is killed.
DATA = """import os, signal, threading
import torch
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self, rank):
        self.rank = str(rank)

    def __len__(self):
        return 32

    def __getitem__(self, index):
        if index == 20 and os.environ.get("HANG_RANK") == self.rank:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        if index == 20 and os.environ.get("DIE_RANK") == self.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(3, 32, 32)
"""
TORCHRUN = DATA + """
import torch.distributed

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    for batch in DataLoader(Images(rank), batch_size=4, num_workers=1):
        torch.distributed.all_reduce(torch.ones(1))
    print("rank", rank, "is done")
    torch.distributed.destroy_process_group()
"""
MPIRUN = DATA + """
from mpi4py import MPI

if __name__ == "__main__":
    world = MPI.COMM_WORLD
    for batch in DataLoader(Images(world.rank), batch_size=4, num_workers=1):
        world.allreduce(1)
    print("rank", world.rank, "is done")
"""


@unittest.skipUnless(HAS_LOADER, NO_LOADER)
class Launchers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "dlprobe").symlink_to(DLPROBE)

    def launch(self, script, arguments, text, **environment):
        (self.folder / "train.py").write_text(text)
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "OUT": str(self.folder / "out"),
                       "WORKERS": "1", "BATCH": "8", "SHAPE": "3x64x64", "HANG_AFTER": "8s", "NODE_NAME": "n1",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **environment}
        return subprocess.run([RECIPES / script, *arguments], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False)

    def reports(self, folder="out"):
        return {path.stem: json.loads(path.read_text()) for path in sorted((self.folder / folder).glob("*.json"))}

    def codes(self, report):
        return [finding["code"] for finding in report["findings"] if finding["severity"] == "error"]

    def torchrun(self, **environment):
        arguments = ["--standalone", "--nproc_per_node=2", "--", "train.py"]
        return self.launch("torchrun.sh", arguments, TORCHRUN, PYTHON=NEW_TORCH, **environment)

    def mpirun(self, **environment):
        arguments = ["--oversubscribe", "-np", "2", "--", TORCH_PYTHON, "-m", "mpi4py", "train.py"]
        return self.launch("mpirun.sh", arguments, MPIRUN, **environment)

    def test_a_wrong_command_line(self):
        for script in ("torchrun.sh", "mpirun.sh"):
            self.assertEqual(self.launch(script, ["-np", "2"], "").returncode, 2)

    @unittest.skipUnless(NEW_TORCH and Path(NEW_TORCH).exists(), NO_NEW_TORCH)
    def test_torchrun(self):
        done = self.torchrun()
        self.assertEqual(done.returncode, 0, done.stdout)
        reports = self.reports()
        self.assertEqual(set(reports), {"n1.gate", "n1"})
        self.assertEqual([self.codes(report) for report in reports.values()], [[], []])

    @unittest.skipUnless(NEW_TORCH and Path(NEW_TORCH).exists(), NO_NEW_TORCH)
    def test_torchrun_with_a_rank_that_hangs(self):
        done = self.torchrun(HANG_RANK="1")
        self.assertNotEqual(done.returncode, 0)
        reports = self.reports()
        report = reports["n1"]
        self.assertEqual(self.codes(report)[:1], ["DLP0303"], done.stdout)
        self.assertIn("rank 1's worker", report["summary"]["headline"])
        # The other one waits for it, and is no cause.
        self.assertEqual({process["rank"] for process in report["processes"] if process["role"] == "trainer"}, {0, 1})
        self.assertLessEqual(set(self.codes(report)), {"DLP0303", "DLP0702"})

    def test_a_node_that_is_not_fit_trains_nothing(self):
        done = self.launch("torchrun.sh", ["--standalone", "--", "train.py"], TORCHRUN, BATCH="1048576", PYTHON="false")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, "^FAIL  DLP0101 ")

    @unittest.skipUnless(shutil.which("mpirun") and has_torch(), NEEDS_TORCH + " python3-mpi4py openmpi-bin")
    def test_mpirun(self):
        done = self.mpirun()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(set(self.reports("out/gate")), {"n1"})
        self.assertEqual(set(self.reports("out/ranks")), {"n1.0", "n1.1"})
        self.assertTrue((self.folder / "out/gate.html").stat().st_size)

    @unittest.skipUnless(shutil.which("mpirun") and has_torch(), NEEDS_TORCH + " python3-mpi4py openmpi-bin")
    def test_mpirun_with_a_rank_whose_worker_is_killed(self):
        done = self.mpirun(DIE_RANK="1")
        self.assertNotEqual(done.returncode, 0)
        reports = self.reports("out/ranks")
        self.assertIn("n1.1", reports, done.stdout)
        self.assertIn("worker", reports["n1.1"]["summary"]["headline"])
        self.assertEqual(self.codes(reports["n1.1"]), ["DLP0503"])


if __name__ == "__main__":
    unittest.main()
