"""Imported by no_guard_in_module.py: starts a process while it is."""
import multiprocessing


def work():
    pass


helper = multiprocessing.Process(target=work)
helper.start()
