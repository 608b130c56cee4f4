"""Actors play Catch on their own and write transitions into a replay buffer in shared memory; the learner samples from it.

The buffer is a ring of fixed size, guarded by one lock. `--unroll` keeps each episode as a segment of its own, as the first
version did.
"""
import argparse
import multiprocessing as mp
import os
import random
import signal
import struct
import time
from multiprocessing import shared_memory

STEP = struct.Struct("<4f2i")


class Catch:
    """A ball falls, a paddle moves."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.reset()

    def reset(self):
        self.ball, self.height, self.paddle = self.random.random(), 1.0, 0.5

    def step(self):
        action = self.random.choice((-1, 0, 1))
        self.paddle += 0.1 * action
        self.height -= 0.05
        done = self.height <= 0
        reward = float(done and abs(self.paddle - self.ball) < 0.1)
        transition = (self.ball, self.height, self.paddle, reward, action, int(done))
        if done:
            self.reset()
        return transition


class ReplayBuffer:
    def __init__(self, capacity, context):
        self.capacity, self.lock = capacity, context.Lock()
        self.memory = shared_memory.SharedMemory(create=True, size=capacity * STEP.size)
        self.memory.buf[:] = bytes(self.memory.size)
        self.written = context.Value("q", 0, lock=False)

    def add(self, transitions, crash):
        with self.lock:
            for number, transition in enumerate(transitions):
                place = (self.written.value % self.capacity) * STEP.size
                STEP.pack_into(self.memory.buf, place, *transition)
                self.written.value += 1
                if crash and number == 3:
                    os.kill(os.getpid(), signal.SIGKILL)  # what the kernel does to an actor that is too fat

    def sample(self, count):
        with self.lock:
            filled = min(self.written.value, self.capacity)
            places = [random.randrange(filled) * STEP.size for _ in range(count if filled else 0)]
            return [STEP.unpack_from(self.memory.buf, place) for place in places]


def act(number, buffer, options):
    game, episodes = Catch(number), 0
    while True:
        transitions = [game.step() for _ in range(20)]
        buffer.add(transitions, options.crash_at == episodes and number == 0)
        episodes += 1
        time.sleep(0.01)


def unroll(number, names, options):
    """Sends each episode as a segment, whose name the learner opens."""
    game = Catch(number)
    while True:
        segment = shared_memory.SharedMemory(create=True, size=max(options.episode_kib * 1024, 20 * STEP.size))
        for place in range(20):
            STEP.pack_into(segment.buf, place * STEP.size, *game.step())
        names.put(segment.name)
        segment.close()
        time.sleep(0.01)


def learn_from_episodes(names, options):
    for _update in range(options.updates):
        segment = shared_memory.SharedMemory(name=names.get())
        rewards = [STEP.unpack_from(segment.buf, place * STEP.size)[3] for place in range(20)]
        segment.close()
        if not options.never_unlink:
            segment.unlink()
        time.sleep(0.02 * max(rewards))


def learn(buffer, options):
    value = 0.0
    for update in range(options.updates):
        batch = buffer.sample(64)
        value += 0.01 * (sum(row[3] for row in batch) / max(1, len(batch)) - value)
        time.sleep(0.02)
        if update % 100 == 0:
            print(f"update {update}: value {value:.3f}, {buffer.written.value} transitions", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--start", default="fork")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--capacity", type=int, default=20000)
    parser.add_argument("--crash-at", type=int, help="episode at which the first actor dies")
    parser.add_argument("--lose-learner", action="store_true", help="the learner is killed together with its actors")
    parser.add_argument("--unroll", action="store_true")
    parser.add_argument("--episode-kib", type=int, default=4)
    parser.add_argument("--never-unlink", action="store_true")
    options = parser.parse_args()
    if options.lose_learner:
        os.setpgrp()
    context = mp.get_context(options.start)
    names = context.Queue(64)
    buffer = None if options.unroll else ReplayBuffer(options.capacity, context)
    work = (unroll, names) if options.unroll else (act, buffer)
    actors = [context.Process(target=work[0], args=(number, work[1], options), daemon=True) for number in range(options.actors)]
    for actor in actors:
        actor.start()
    print("ready", flush=True)
    if options.unroll:
        learn_from_episodes(names, options)
    else:
        learn(buffer, options)
    if options.lose_learner:
        os.killpg(0, signal.SIGKILL)
    for actor in actors:
        actor.terminate()
        actor.join()
    if buffer:
        buffer.memory.close()
        buffer.memory.unlink()


if __name__ == "__main__":
    main()
