"""Heat in a rod by MPI: each rank has a piece of it, and all compare how far it still is from rest.

usage: heat_mpi.py [--odd-barrier | --long-piece]: rank 0 alone waits at a barrier | rank 2 has far more to compute
"""
import os
import sys
import time

if "OMPI_COMM_WORLD_RANK" not in os.environ:
    os.execvp("mpirun", ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", sys.executable, *sys.argv])

from mpi4py import MPI


class Rod:
    def __init__(self, comm, cells):
        self.comm = comm
        self.piece = [float(comm.rank)] * cells

    def relax(self):
        before, piece = self.piece, self.piece
        self.piece = [(piece[max(i - 1, 0)] + piece[min(i + 1, len(piece) - 1)]) / 2 for i in range(len(piece))]
        return max(abs(a - b) for a, b in zip(before, self.piece))

    def run(self, seconds):
        started = self.comm.bcast(time.time())
        step = 0
        while self.comm.bcast(time.time()) - started < seconds:
            self.comm.allreduce(self.relax(), op=MPI.MAX)
            step += 1
            if step == 20 and self.comm.rank == 0 and "--odd-barrier" in sys.argv:
                self.comm.Barrier()
            time.sleep(0.005)


WORLD = MPI.COMM_WORLD
Rod(WORLD, 100_000 if WORLD.rank == 2 and "--long-piece" in sys.argv else 100).run(40 if len(sys.argv) > 1 else 8)
