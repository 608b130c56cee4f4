"""The magic %dlprobe of IPython and Jupyter: `%load_ext dlprobe`, then `%dlprobe attach 4711`."""

import html
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from IPython.display import display

from .program import find_program

PAGED = {"attach", "deadlock", "fd", "gate", "memory", "replay", "run", "shm", "spawn-recursion", "tune"}
"""Subcommands that make a page of HTML."""
HEIGHT = 480
"""Of the frame, in pixels: the top part of the page, with verdict and cause."""


def magic(line: str) -> None:
    """dlprobe with the arguments of the line. What it prints is printed; its page is shown below."""
    words = shlex.split(line)
    with tempfile.TemporaryDirectory(prefix="dlprobe-") as folder:
        page = Path(folder) / "page.html"
        if words and words[0] in PAGED:
            words[1:1] = ["-f", f"html={page}"]
        with subprocess.Popen([find_program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            for text in process.stdout:
                sys.stdout.write(text.decode("utf-8", "replace"))
                sys.stdout.flush()
        if page.exists():
            display({"text/html": frame_of(page.read_text("utf-8", "replace")), "text/plain": ""}, raw=True)


def frame_of(page: str) -> str:
    """A frame that shows the page. It is kept apart from the notebook: scripts in it reach nothing outside."""
    return (f'<iframe sandbox="allow-scripts" style="width: 100%; height: {HEIGHT}px; border: 1px solid #8888" '
            f'srcdoc="{html.escape(page)}"></iframe>')
