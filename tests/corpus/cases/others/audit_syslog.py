"""Checks the licence of each file of a crawl in short-lived workers. Everything is written to syslog: our compliance people
want it."""
import argparse
import hashlib
import syslog
import threading
from multiprocessing import Pool


def heartbeat(stop, period):
    """Tells the collector that we are alive."""
    while not stop.wait(period):
        for queue in ("crawl", "licences", "images"):
            syslog.syslog(syslog.LOG_DEBUG, f"{queue}: alive")


def check(number):
    text = f"file {number}: licence {'MIT' if number % 3 else 'unknown'}\n" * 50
    syslog.syslog(syslog.LOG_INFO, f"checked {number}")
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=6000)
    parser.add_argument("--heartbeat", type=float, default=0.0, help="seconds between heartbeats")
    parser.add_argument("--no-heartbeat", action="store_true")
    parser.add_argument("--tasks-per-child", type=int, default=4)
    options = parser.parse_args()
    syslog.openlog("licences", syslog.LOG_PID | syslog.LOG_NDELAY)
    stop = threading.Event()
    if not options.no_heartbeat:
        threading.Thread(target=heartbeat, args=(stop, options.heartbeat), daemon=True).start()
    found = set()
    with Pool(3, maxtasksperchild=options.tasks_per_child) as pool:
        for digest in pool.imap_unordered(check, range(options.files)):
            found.add(digest)
    stop.set()
    print(len(found), "files checked")


if __name__ == "__main__":
    main()
