"""Three ranks of MPI, of which one leaves in the middle, and without MPI_Finalize, or ends them all: usage
mpi_ranks.py [--abort] [--healthy]."""
import os
import sys

if "OMPI_COMM_WORLD_RANK" not in os.environ:
    os.execvp("mpirun", ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, *sys.argv])

from mpi4py import MPI

for step in range(5):
    MPI.COMM_WORLD.allreduce(step)
if MPI.COMM_WORLD.rank == 1 and "--healthy" not in sys.argv:
    if "--abort" in sys.argv:
        MPI.COMM_WORLD.Abort(7)
    os._exit(0)
MPI.COMM_WORLD.allreduce(1)
