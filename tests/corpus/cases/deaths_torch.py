"""A DataLoader one of whose workers comes to its end in one of the ways of deaths_common.py."""
import subprocess
import sys

import torch
from common import Samples, make_loader, parser, train
from deaths_common import ENDS, memory_group, run_in


class Ending(Samples):
    """At one sample the worker ends."""

    def __init__(self, count, kind, at):
        super().__init__(count, 0.1)
        self.kind = kind
        self.at = at

    def __getitem__(self, index):
        if index == self.at and torch.utils.data.get_worker_info() is not None:
            kept = ENDS[self.kind]()
            del kept
        return super().__getitem__(index)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("kind", choices=sorted(ENDS))
    arguments.add_argument("--group-mib", type=int, help="run in a memory cgroup with that limit")
    options = arguments.parse_args()
    if options.group_mib:
        with memory_group(options.group_mib) as group:
            inside = [each for each in sys.argv if not each.startswith("--group-mib")]
            code = subprocess.run([sys.executable, *inside], preexec_fn=run_in(group), check=False).returncode
        sys.exit(code if code >= 0 else 128 - code)
    count = options.batches * options.batch_size
    dataset = Ending(count, options.kind, None if options.healthy else count // 2)
    train(make_loader(options, dataset), options)


if __name__ == "__main__":
    main()
