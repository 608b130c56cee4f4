"""Another job that holds shared memory. Says "ready", then waits until its stdin is closed.

--kind psm: one multiprocessing.shared_memory block; --kind torch: tensors in shared memory.
"""
import os
import sys
from multiprocessing import shared_memory

import torch

from common import MIB, parser, say


def hold_block(mib):
    block = shared_memory.SharedMemory(create=True, size=mib * MIB)
    os.posix_fallocate(block._fd, 0, mib * MIB)
    return block


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--kind", default="psm", choices=["psm", "torch"])
    arguments.add_argument("--mib", type=int, default=40)
    options = arguments.parse_args()
    block = None
    if options.kind == "psm":
        block = hold_block(options.mib)
    else:
        kept = [torch.ones(MIB // 4).share_memory_() for _ in range(options.mib)]
        say(f"holds {len(kept)} tensors")
    say("ready")
    sys.stdin.read()
    if block:
        block.close()
        block.unlink()


if __name__ == "__main__":
    main()
