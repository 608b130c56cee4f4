"""python -m dlprobe ...: the program dlprobe, with these arguments."""

import os
import sys

from .program import ProgramNotFound, find_program

if __name__ == "__main__":
    try:
        PROGRAM = find_program()
    except ProgramNotFound as error:
        print(f"dlprobe: {error}", file=sys.stderr)
        sys.exit(2)
    os.execv(PROGRAM, [PROGRAM, *sys.argv[1:]])
