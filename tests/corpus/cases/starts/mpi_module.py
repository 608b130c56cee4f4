"""Imports MPI at module level, or under the guard: usage mpi_module.py [--healthy]."""
import multiprocessing
import sys

if "--healthy" not in sys.argv:
    from mpi4py import MPI


def work():
    pass


if __name__ == "__main__":
    if "--healthy" in sys.argv:
        from mpi4py import MPI
    print("rank", MPI.COMM_WORLD.Get_rank())
    process = multiprocessing.Process(target=work)
    process.start()
    process.join()
    sys.exit(process.exitcode != 0)
