"""A data set that raises in a worker; with --healthy it is caught there. With --slow one sample takes longer than the
timeout of its loader (--timeout N); with --healthy it comes in time. With --gone a process ends before the tensors that it sent are received;
with --healthy it waits. With --memory a model is refused memory of the GPU (as its exception says) while it is evaluated with its
graph; with --healthy it is not. With --unlike one sample has another shape than those of its batch; with --healthy it has not."""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

HEALTHY = "--healthy" in sys.argv
TIMEOUT = int(sys.argv[sys.argv.index("--timeout") + 1]) if "--timeout" in sys.argv else 6


class Table(Dataset):
    def __init__(self):
        self.rows = {index: torch.zeros(3) for index in range(60)}

    def __len__(self):
        return 64

    def __getitem__(self, index):
        try:
            return self.rows[index]
        except KeyError:
            if HEALTHY:
                return torch.ones(3)
            raise


class Remote(Dataset):
    """One sample comes from a store that is slow to answer."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 21:
            time.sleep(4 if HEALTHY else 30)
        return torch.full((3,), float(index))


class Clips(Dataset):
    """One clip is longer than the others."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"clip": torch.zeros(4 if index == 21 and not HEALTHY else 3), "label": index}


def send(queue, done):
    queue.put(torch.ones(9))
    if HEALTHY:
        done.wait()


def receive():
    context = torch.multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    sender = context.Process(target=send, args=(queue, done))
    sender.start()
    if not HEALTHY:
        sender.join()
    queue.get()
    done.set()
    sender.join()


class Full(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.is_full = torch.nn.Linear(3, 3), False

    def forward(self, x):
        if self.is_full:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        y = self.first(x)
        self.is_full = y.grad_fn is not None
        return y


def evaluate():
    model = Full().eval()
    with torch.set_grad_enabled(not HEALTHY):
        for batch in DataLoader(torch.zeros(8, 3), batch_size=4):
            kept = model(batch)
        return kept


def main():
    if "--gone" in sys.argv:
        return receive()
    if "--memory" in sys.argv:
        return evaluate()
    if "--slow" in sys.argv:
        return list(DataLoader(Remote(), batch_size=4, num_workers=2, timeout=TIMEOUT))
    return list(DataLoader(Clips() if "--unlike" in sys.argv else Table(), batch_size=4, num_workers=2))


if __name__ == "__main__":
    main()
