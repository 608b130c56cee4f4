"""Starts the same program, as that does: usage starts_itself.py [--healthy]."""
import multiprocessing
import subprocess
import sys

if __name__ == "__main__" and len(sys.argv) < 2 or sys.argv[1] != "leaf":
    children = 3
    arguments = ["leaf"] if "--healthy" in sys.argv else sys.argv[1:]
    started = [subprocess.Popen([sys.executable, __file__, *arguments]) for _ in range(children)]
    for child in started:
        child.wait()
if __name__ == "__main__" and "--healthy" in sys.argv:
    process = multiprocessing.Process(target=print, args=("done",))
    process.start()
    process.join()
