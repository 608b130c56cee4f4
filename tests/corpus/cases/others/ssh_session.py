"""What sshd does, without a network: a login shell on a terminal, in which the user starts a command and loses the connection."""
import argparse
import fcntl
import os
import subprocess
import sys
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def login(line):
    master, slave = os.openpty()
    shell = subprocess.Popen(["bash", "--norc", "-c", line], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    return shell, master


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connected", type=float, default=2)
    parser.add_argument("--nohup", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    line = " ".join(["trap '' HUP;" if args.nohup else "", sys.executable, os.path.join(HERE, args.script), *args.arguments, "> /dev/null 2>&1;" if args.nohup else ";", "exit $?"])
    shell, master = login(line)
    deadline = time.monotonic() + args.connected
    while shell.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if shell.poll() is None:
        os.close(master)
    code = shell.wait()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
