"""One incident of a job of ranks (gloo), for ranks_vs_peers.py: rank 2 is at fault, the others wait.

usage: rank_incident.py KIND FOLDER RANKS WORKERS

Starts its ranks as a launcher does, and ends them when its stdin ends. Each rank writes what PyTorch's Flight Recorder
holds to FOLDER/dump_RANK, once a second, and makes FOLDER/standing.RANK where it is about to stand still.
"""

import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

FAULTY = 2
LOCK = threading.Lock()


def stand(folder, rank):
    (folder / f"standing.{rank}").touch()


class Samples:
    """The batches of a rank; a worker of the faulty one may stand still."""

    def __init__(self, length, before_item=lambda index: None):
        self.length = length
        self.before_item = before_item

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        import torch
        self.before_item(index)
        return torch.ones(64)


class Job:
    def __init__(self, kind, folder, workers):
        import torch
        import torch.distributed as dist
        torch.set_num_threads(1)
        self.kind, self.folder, self.workers = kind, folder, workers
        self.dist, self.torch = dist, torch
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.is_faulty = self.rank == FAULTY
        threading.Thread(target=self.dump, daemon=True).start()
        if kind == "die":
            stand(folder, self.rank)
            if self.is_faulty:
                os._exit(1)
        dist.init_process_group("gloo")

    def dump(self):
        from torch._C._distributed_c10d import _dump_fr_trace
        while True:
            part = self.folder / f".{self.rank}"
            held = pickle.loads(_dump_fr_trace())
            # The analyser of torch 2.13 asks for a group by a name under which gloo does not list it.
            held["pg_config"]["0"] = {"name": "0", "desc": "default_pg", "ranks": str(list(range(self.ranks)))}
            part.write_bytes(pickle.dumps(held))
            part.rename(self.folder / f"dump_{self.rank}")
            time.sleep(1)

    def loader(self, length=400, before_item=lambda index: None):
        from torch.utils.data import DataLoader
        return DataLoader(Samples(length, before_item), batch_size=4, num_workers=self.workers)

    def train(self, loader, after_step=lambda step: None):
        model = self.torch.nn.parallel.DistributedDataParallel(self.torch.nn.Linear(64, 1))
        for step, batch in enumerate(loader):
            if step == 5:
                stand(self.folder, self.rank)
            model(batch).sum().backward()
            after_step(step)
        self.dist.barrier()

    def upload(self, step):
        if self.is_faulty and step == 5:
            time.sleep(600)

    def save(self, step):
        if self.is_faulty and step == 5:
            with LOCK, LOCK:
                pass

    def log(self, step):
        if self.is_faulty and step == 5:
            self.dist.barrier()

    def wander(self, step):
        while self.is_faulty and step == 5:
            sum(range(1000))

    def wait_for_lock(self, index):
        if self.is_faulty and index == 24:
            with LOCK:
                pass

    def read_pipe(self, index):
        if self.is_faulty and index == 24:
            os.read(os.pipe()[0], 1)

    def run(self):
        if self.kind in ("upload", "save", "log", "wander"):
            self.train(self.loader(), getattr(self, self.kind))
        elif self.kind == "uneven":
            self.train(self.loader(24 if self.is_faulty else 400))
        elif self.kind == "read_pipe":
            self.train(self.loader(before_item=self.read_pipe))
        elif self.kind == "wait_for_lock":
            with LOCK:  # copied by fork
                batches = iter(self.loader(before_item=self.wait_for_lock))
            self.train(batches)


def launch(arguments):
    _, folder, ranks, _ = arguments
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, *arguments], stdin=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True,
                                env=dict(os.environ, RANK=str(rank), WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1",
                                         MASTER_PORT=str(port), OMP_NUM_THREADS="1", TORCH_FR_BUFFER_SIZE="2000"))
               for rank in range(int(ranks))]
    sys.stdin.read()
    for rank in started:
        os.killpg(rank.pid, signal.SIGKILL)
        rank.wait()


if __name__ == "__main__":
    if "RANK" in os.environ:
        Job(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[4])).run()
    else:
        launch(sys.argv[1:])
