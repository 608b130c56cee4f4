"""Processes of torch.multiprocessing that write to tensors which they have sent; the other kinds are healthy ones like it.

The fault is counted: tensors that came with other values than those of their number."""
import argparse
import time

import torch
import torch.multiprocessing as multiprocessing

NUMBERS, COUNT, SLOTS = 2000, 30, 4
BUFFER = torch.zeros(NUMBERS)


def produce(kind, queue, free, done, ring):
    for number in range(COUNT):
        if kind == "lockstep" and number or kind == "ring-in-turn" and number >= SLOTS:
            free.get()
        tensor = {"same": BUFFER, "lockstep": BUFFER, "clone": BUFFER.clone(), "fresh": torch.empty(NUMBERS)}.get(kind, ring[number % SLOTS])
        tensor.fill_(number)
        queue.put((number, {"image": tensor}))
    queue.put(None)
    done.wait()


def read(queue, free, wrong=0):
    for number, sample in iter(queue.get, None):
        time.sleep(.005)
        wrong += not bool((sample["image"] == number).all())
        free.put(number)
    return wrong


def decode(number):
    time.sleep(.005)
    return number, BUFFER.fill_(number)


def decode_and_copy(number):
    return number, decode(number)[1].clone()


def from_pool(kind, pool):
    if kind == "pool":
        results = pool.map(decode, range(COUNT), chunksize=1)
    elif kind == "pool-copies":
        results = pool.map(decode_and_copy, range(COUNT), chunksize=1)
    else:
        results = (pool.apply(decode, (number,)) for number in range(COUNT))
    return sum(not bool((image == number).all()) for number, image in results)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--method", default="fork")
    parser.add_argument("--strategy", default="file_descriptor")
    options = parser.parse_args()
    multiprocessing.set_sharing_strategy(options.strategy)
    context = multiprocessing.get_context(options.method)
    if options.kind.startswith("pool"):
        with context.Pool(2) as pool:
            wrong = from_pool(options.kind, pool)
    else:
        queue, free, done = context.Queue(), context.Queue(), context.Event()
        ring = torch.zeros(SLOTS, NUMBERS).share_memory_()
        producer = context.Process(target=produce, args=(options.kind, queue, free, done, ring))
        producer.start()
        wrong = read(queue, free)
        done.set()
        producer.join()
    print(wrong, "tensors are wrong", torch.__version__)


if __name__ == "__main__":
    main()
