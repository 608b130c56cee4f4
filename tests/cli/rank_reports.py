"""Reports of the nodes of one job: 4 ranks each, with 2 workers; all wait in all_reduce, or what a test wants of one."""

import copy

RANKS_OF_A_NODE = 4
SLEEPS = {"doing": "sleeps", "stands": False, "at": {"kind": "python", "function": "upload", "file": "/srv/train.py", "line": 17}}
WORKS = {"doing": "works", "motion": "runs", "stands": False, "at": {"kind": "python", "function": "save", "file": "/srv/train.py",
                                                                   "line": 20}}
BROADCASTS = {"operation": "broadcast", "at": {"kind": "python", "function": "main", "file": "/srv/train.py", "line": 44}}


def rank_entry(number, world, **changes):
    pid = 4711 + number % RANKS_OF_A_NODE
    entry = {"job": "10.0.0.1:29500", "rank": number, "world_size": world, "local_world_size": RANKS_OF_A_NODE, "pid": pid,
             "start_ticks": 1, "doing": "waits for ranks", "lasts_s": 40.0, "meeting": "collective",
             "operation": "all_reduce", "motion": "still", "stands": True, "overdue": True,
             "at": {"kind": "python", "function": "main", "file": "/srv/train.py", "line": 41},
             "library": "libtorch_cpu.so", "workers": [{"pid": pid + 1000 * worker, "activity": "waiting", "lasts_s": 39.0}
                                                       for worker in (1, 2)]}
    entry.update(changes)
    return entry


def node_report(report, number, nodes, changes=None):
    """The report as that of node n<number>, from 1; `changes`: rank -> what differs, None: it is not there."""
    result = copy.deepcopy(report)
    name = f"n{number}"
    result["host"].update(name=name, node=name)
    result["report_id"] = f"{number:032x}"
    first = (number - 1) * RANKS_OF_A_NODE
    changes = changes or {}
    result["ranks"] = [rank_entry(rank, nodes * RANKS_OF_A_NODE, **changes.get(rank, {}))
                       for rank in range(first, first + RANKS_OF_A_NODE) if changes.get(rank, {}) is not None]
    return result
