#!/usr/bin/env python3
"""Prices an Asian option by simulation on all cores. Usage: option_prices.py [--stream-per-task | --stream-per-process]"""
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

rng = np.random.default_rng()
STEPS, PATHS = 50, 400


def own_stream():
    global rng
    rng = np.random.default_rng()


def price(task):
    number, seed = task
    stream = np.random.default_rng(seed) if seed is not None else rng
    moves = stream.normal(0.0, 0.02, (PATHS, STEPS))
    means = (100 * np.exp(np.cumsum(moves, axis=1))).mean(axis=1)
    return number, float(np.maximum(means - 101, 0).mean())


def main():
    seeds = np.random.SeedSequence(5).spawn(200) if "--stream-per-task" in sys.argv else [None] * 200
    first = own_stream if "--stream-per-process" in sys.argv else None
    with ProcessPoolExecutor(4, get_context("fork"), initializer=first) as pool:
        prices = dict(pool.map(price, enumerate(seeds)))
    values = np.array(list(prices.values()))
    print("price %.4f, standard error %.4f" % (values.mean(), values.std() / len(values) ** 0.5))


if __name__ == "__main__":
    main()
