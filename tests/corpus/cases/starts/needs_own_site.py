"""Works where its user's own sitecustomize was loaded, in each process."""
import builtins
import multiprocessing
import sys


def work():
    sys.exit(0 if builtins.own_site_was_here else 1)


if __name__ == "__main__":
    assert builtins.own_site_was_here
    process = multiprocessing.Process(target=work)
    process.start()
    process.join()
    sys.exit(process.exitcode)
