"""Workers ask a server that is none of their job's processes, and that is stopped meanwhile. No torch.

Twins: nobody stops it (--healthy); it is slow (--healthy slow).
"""
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from hang_common import Loader, claim, expect, run_kind, say, train

ADDRESS = Path(os.environ["TMPDIR"]) / "server"


def answer(connection, seconds):
    while word := connection.recv(1):
        time.sleep(seconds)
        connection.send(word)


def serve(seconds):
    """For as long as its standard input is open. A stopped one does not hear its alarm: its driver ends it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ADDRESS.write_text(f"{os.getpid()} {server.getsockname()[1]}", encoding="ascii")
        threading.Thread(target=lambda: sys.stdin.read() or os._exit(0), daemon=True).start()
        say("ready")
        while True:
            threading.Thread(target=answer, args=(server.accept()[0], seconds), daemon=True).start()


def ask(connection):
    connection.send(b"x")
    return connection.recv(1)


def ask_one_that_stops(options, before_accept=False):
    """The server is stopped before each worker's second question, or before their first connection."""
    server, port = map(int, ADDRESS.read_text(encoding="ascii").split())
    connections = {}

    def fetch(index):
        if os.getpid() not in connections and before_accept and not options.healthy:
            os.kill(server, signal.SIGSTOP)
        if os.getpid() not in connections:
            claim("moves" if options.healthy else "still")
            connections[os.getpid()] = socket.create_connection(("127.0.0.1", port))
            ask(connections[os.getpid()])
        if not options.healthy:
            os.kill(server, signal.SIGSTOP)
        return ask(connections[os.getpid()])

    expect(options.workers + 1)
    loader = Loader(fetch, options)
    for _ in range(options.workers):
        loader.send()
    claim("moves" if options.healthy else "still")
    train(loader)


KINDS = {"serve": lambda options: serve(0), "serve-slowly": lambda options: serve(2),
         "established": ask_one_that_stops,
         "not-accepted": lambda options: ask_one_that_stops(options, before_accept=True)}


if __name__ == "__main__":
    run_kind(__doc__, KINDS)
