"""A producer thread's work done by processes: they put clouds of points, as tensors, into a queue without a bound."""
import argparse
import time

import torch
import torch.multiprocessing as mp


def scan(queue, until, points, bound):
    while time.monotonic() < until:
        if bound is not None:
            bound.acquire()
        queue.put(torch.full((points, 3), until))
        time.sleep(0.02)
    queue.put(None)


def consume(queue, producers, seconds, bound):
    done = clouds = 0
    while done < producers:
        cloud = queue.get()
        if cloud is None:
            done += 1
            continue
        if bound is not None:
            bound.release()
        clouds += 1
        time.sleep(seconds)
    return clouds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=34)
    parser.add_argument("--step", type=float, default=0.1)
    parser.add_argument("--bound", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    mp.set_sharing_strategy("file_system")
    queue = mp.Queue()
    bound = mp.Semaphore(args.bound) if args.bound else None
    producers = [mp.Process(target=scan, args=(queue, time.monotonic() + args.seconds, args.points, bound), daemon=True) for _ in range(2)]
    for producer in producers:
        producer.start()
    print(consume(queue, len(producers), args.step, bound), "clouds")


if __name__ == "__main__":
    main()
