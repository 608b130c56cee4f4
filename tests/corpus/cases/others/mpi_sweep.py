"""Monte Carlo sweep over MPI ranks; each rank uses a pool for its own part."""
import argparse
import multiprocessing
import random

from mpi4py import MPI

world = MPI.COMM_WORLD


def estimate(job):
    seed, samples = job
    draw = random.Random(seed)
    return sum(draw.random() ** 2 + draw.random() ** 2 < 1 for _ in range(samples))


def my_part(jobs):
    return jobs[world.Get_rank()::world.Get_size()]


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", default="spawn")
    parser.add_argument("--jobs", type=int, default=24)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--no-pool", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    jobs = my_part([(seed, options.samples) for seed in range(options.jobs)])
    if options.no_pool:
        inside = [estimate(job) for job in jobs]
    else:
        with multiprocessing.get_context(options.start).Pool(2) as pool:
            inside = pool.map(estimate, jobs)
    total = world.reduce(sum(inside), op=MPI.SUM, root=0)
    if world.Get_rank() == 0:
        print("pi is about", 4 * total / (options.jobs * options.samples))


if __name__ == "__main__":
    main()
