"""A parameter server that saves its state as key-value stores do: a forked copy writes it, while the server goes on."""
import argparse
import mmap
import os
import tempfile
import time


class Parameters:
    def __init__(self, gib):
        page = os.sysconf("SC_PAGE_SIZE")
        self.arenas = []
        while gib > 0:  # as an allocator of huge arenas does
            part = min(gib, os.sysconf("SC_PHYS_PAGES") * page / 2 / 2**30)
            self.arenas.append(mmap.mmap(-1, int(part * 2**30) // page * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            gib -= part

    def update(self, step):
        for number, arena in enumerate(self.arenas):
            arena[step * 8:step * 8 + 8] = (step + number).to_bytes(8, "little")

    def save(self, path, steps):
        child = os.fork()
        if child == 0:
            with open(path, "wb") as file:
                for arena in self.arenas:
                    file.write(arena[:steps * 8])
            os._exit(0)
        return child


def memory_gib():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=memory_gib() * 1.4)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    parameters = Parameters(0.5 if args.small else args.gib)
    with tempfile.TemporaryDirectory() as folder:
        savers = []
        for step in range(1, 101):
            parameters.update(step)
            time.sleep(0.01)
            if step % 50 == 0:
                savers.append(parameters.save(os.path.join(folder, f"{step}.bin"), step))
        print("saved", [os.waitpid(saver, 0)[1] for saver in savers])


if __name__ == "__main__":
    main()
