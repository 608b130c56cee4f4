"""Actors are forked once the learner has warmed its model up, and wait for its word before they compute themselves."""
import argparse
import multiprocessing as mp
import os
import time

os.environ.pop("OMP_NUM_THREADS", None)
import torch  # noqa: E402


def actor(go, results, one_thread):
    if one_thread:
        torch.set_num_threads(1)
    go.wait()
    results.put(1)


def learn(net, steps):
    for _ in range(steps):
        net(torch.rand(512, 256)).sum().backward()
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", default="fork")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--seconds", type=float, default=12)
    args = parser.parse_args()
    torch.set_num_threads(2)
    context = mp.get_context(args.start)
    net = learn(torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)), 5)
    go, results = context.Event(), context.Queue()
    actors = [context.Process(target=actor, args=(go, results, args.one_thread), daemon=True) for _ in range(2)]
    for each in actors:
        each.start()
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        learn(net, 1)
        time.sleep(0.05)
    go.set()
    print("actors", sum(results.get() for _ in actors))


if __name__ == "__main__":
    main()
