"""Two ranks of torch.distributed that learn from the same samples, for the data set is not shared out; the other kinds are healthy
ones like it."""
import argparse
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset, get_worker_info

SAMPLES = 96


class Stream(IterableDataset):
    def __init__(self, data, rank, kind):
        self.data, self.part = data, (rank, 2) if kind == "stream-shared-out" else (0, 1)

    def __iter__(self):
        info, (part, parts) = get_worker_info(), self.part
        if info is not None:
            part, parts = part * info.num_workers + info.id, parts * info.num_workers
        return (self.data[index] for index in range(part, SAMPLES, parts))


def batches_of(loader, model, kind):
    """All of an epoch, by which the model learns while they come, or afterwards."""
    optimizer, batches = torch.optim.SGD(model.parameters(), 1e-6), []
    for number, (batch,) in enumerate(loader):
        if kind == "stream-skipped" and number % 2 != dist.get_rank():
            continue
        batches.append(batch)
        if kind in ("in-order-learned", "shuffled-learned", "parts", "shared-out", "stream", "stream-shared-out", "stream-skipped"):
            model(batch).mean().backward()
            optimizer.step()
    return batches


def add_up(model, is_gradient):
    """With the other rank, after a first epoch."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad.data if is_gradient else parameter.grad.norm())


def learn(rank, port, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(rank if options.kind == "seeds" else 0)
    if options.kind == "groups":  # of each, say, the parts of one model
        for each in range(2):
            dist.new_group([each])
    model = torch.nn.Linear(4, 1)
    if options.kind not in ("parts", "by-hand", "norms"):  # of one model, which are to have the same data
        model = DistributedDataParallel(model)
    torch.set_grad_enabled(not options.kind.endswith("evaluated"))
    data = TensorDataset(torch.arange(4. * SAMPLES).reshape(SAMPLES, 4))
    sampler = DistributedSampler(data) if options.kind == "shared-out" else None
    data = Stream(data, rank, options.kind) if options.kind.startswith("stream") else data
    is_shuffled = options.kind in ("alike", "seeds", "shuffled-learned", "groups", "parts", "evaluated", "by-hand", "norms")
    method = options.method if options.workers else None  # in a spawned process else "spawn"
    loader = DataLoader(data, 8, shuffle=is_shuffled or None, sampler=sampler, num_workers=options.workers, multiprocessing_context=method)
    batches = batches_of(loader, model, options.kind)
    if options.kind in ("by-hand", "norms"):
        model(batches[0]).mean().backward()
        add_up(model, options.kind == "by-hand")
        batches = batches_of(loader, model, options.kind)
    if torch.is_grad_enabled():
        for batch in batches:
            model(batch).mean().backward()
    seen = torch.cat(batches)[:, 0]
    counts = torch.zeros(4 * SAMPLES).index_add_(0, seen.long(), torch.ones(len(seen)))
    dist.all_reduce(counts)
    if rank == 0:
        print("%d samples came to both ranks" % int((counts > 1).sum()), torch.__version__)
        sys.stdout.flush()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("alike", "seeds", "groups", "parts", "evaluated", "in-order", "shared-out",
                                         "in-order-learned", "shuffled-learned", "stream", "stream-shared-out", "stream-skipped", "stream-evaluated", "by-hand", "norms"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--method", default="fork")
    options = parser.parse_args()
    store = dist.TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False)
    port = store.port
    del store
    torch.multiprocessing.spawn(learn, (port, options), nprocs=2)


if __name__ == "__main__":
    main()
