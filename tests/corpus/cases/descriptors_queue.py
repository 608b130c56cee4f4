"""Tensors that come by a queue of torch.multiprocessing, without a DataLoader, and are kept: the receiver's error is
"received 0 items of ancdata"."""
import resource
import sys
import time

import torch
import torch.multiprocessing as mp


def produce(queue):
    for number in range(2000):
        queue.put(torch.full((256,), float(number)))
        time.sleep(0.005)
    time.sleep(60)  # what it has sent lives as long as it does


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    context = mp.get_context("fork")
    queue = context.Queue(4)
    producer = context.Process(target=produce, args=(queue,), daemon=True)
    producer.start()
    kept = []
    while True:
        kept.append(queue.get())


if __name__ == "__main__":
    sys.exit(main())
