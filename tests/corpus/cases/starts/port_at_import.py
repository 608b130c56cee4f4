"""Listens at a port at module level, which its parent has; with --healthy the main process alone does."""
import multiprocessing
import socket
import sys

PORT = 48_113


def listen():
    server = socket.socket()
    server.bind(("127.0.0.1", PORT))
    server.listen()
    return server


def work():
    pass


SERVER = None if "--healthy" in sys.argv else listen()

if __name__ == "__main__":
    SERVER = SERVER or listen()
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
    sys.exit(process.exitcode)
