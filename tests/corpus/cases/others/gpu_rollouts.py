"""Rolls a policy out in worker processes; the learner keeps it on the GPU. Where there is none, torch is told what it would know of
a fork after CUDA's initialisation; what it refuses, it refuses itself."""
import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))

    def act(self, observation):
        return self.net(observation.to(self.device)).argmax().item()


def initialise_cuda():
    if torch.cuda.is_available():
        torch.cuda.init()
        return
    learner = os.getpid()
    torch.cuda._is_in_bad_fork = lambda: os.getpid() != learner


def rollout(job):
    state, device, seed = job
    torch.manual_seed(seed)
    policy = Policy(device)
    policy.load_state_dict(state)
    policy.to(device)
    observation, reward = torch.zeros(4), 0.0
    for _ in range(20):
        observation = observation * 0.9 + torch.randn(4) * 0.1 + policy.act(observation)
        reward -= observation.abs().sum().item()
    return reward


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actor-device", default="cuda")
    parser.add_argument("--start", default="fork")
    args = parser.parse_args()
    torch.set_num_threads(1)
    initialise_cuda()
    state = Policy("cpu").state_dict()
    with ProcessPoolExecutor(2, get_context(args.start)) as executor:
        rewards = list(executor.map(rollout, [(state, args.actor_device, seed) for seed in range(6)]))
    print("mean reward", sum(rewards) / len(rewards))


if __name__ == "__main__":
    main()
