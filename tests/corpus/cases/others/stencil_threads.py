"""Heat equation on tiles: one thread for each tile, which meet at a barrier of the C library after each step."""
import argparse
import ctypes
import threading
from array import array
from multiprocessing import get_context


class Barrier:
    """pthread_barrier_t, since threading.Barrier takes 20 us."""

    def __init__(self, count, keep_gil):
        self.c = (ctypes.PyDLL if keep_gil else ctypes.CDLL)(None)
        self.memory = ctypes.create_string_buffer(64)
        self.c.pthread_barrier_init(self.memory, None, count)

    def wait(self):
        self.c.pthread_barrier_wait(self.memory)


class Tile:
    def __init__(self, cells, barrier):
        self.now, self.next, self.barrier = array("d", [0.0] * cells), array("d", [0.0] * cells), barrier
        self.left = self.right = None

    def edge(self, neighbour, side):
        return neighbour.now[side] if neighbour else 1.0

    def run(self, steps):
        for _ in range(steps):
            self.step()
            self.barrier.wait()
            self.now, self.next = self.next, self.now
            self.barrier.wait()

    def step(self):
        old, last = self.now, len(self.now) - 1
        for cell in range(len(old)):
            left = old[cell - 1] if cell else self.edge(self.left, -1)
            right = old[cell + 1] if cell < last else self.edge(self.right, 0)
            self.next[cell] = (left + old[cell] + right) / 3


def simulate(job):
    seed, cells, tiles, steps, keep_gil = job
    barrier = Barrier(tiles, keep_gil)
    row = [Tile(cells, barrier) for _ in range(tiles)]
    for left, right in zip(row, row[1:]):
        left.right, right.left = right, left
    row[0].now[0] = seed
    threads = [threading.Thread(target=tile.run, args=(steps,), daemon=True) for tile in row]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(sum(tile.now) for tile in row)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=8)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--tiles", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--keep-gil", action="store_true", help="as the first version of our binding did")
    args = parser.parse_args()
    jobs = [(seed, args.cells, args.tiles, args.steps, args.keep_gil) for seed in range(args.simulations)]
    with get_context("fork").Pool(2) as pool:
        for heat in pool.imap(simulate, jobs):
            print(f"{heat:.3f}", flush=True)


if __name__ == "__main__":
    main()
