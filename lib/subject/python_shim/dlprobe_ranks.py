"""What the witness hooks in torch.distributed (see dlprobe_hooks.py, which loads this with it)."""
import atexit
import os
import sys
from _thread import get_ident
from errno import EADDRINUSE

from dlprobe_hooks import Noticed, call_before
from dlprobe_start import tell
from dlprobe_trace import users_line

data_parallel = []  # of the models of this process that each rank has whole: the ranks are to learn from different samples
_hooked = []
_PASS_ON_THE_CODE = ("multiprocessing.spawn", "torch.multiprocessing.spawn")  # of a child, or of the exception that it handed on
_OF_FUNCTION = 2  # a flag of code: its variables are no names of a module
_MOST_CALLS = 64  # of collective operations, among which one of gradients is looked for
_LISTENS = "0A"  # in /proc/net/tcp
_MOST_OF_COMMAND = 200  # characters


def hook_exit():
    """Where the main thread of a rank called sys.exit at last, told when its interpreter ends: it need not end by that."""
    called, pid, thread = [], os.getpid(), get_ident()

    def before_exit(status=None, *_):
        is_libraries = sys._getframe(2).f_globals.get("__name__") in _PASS_ON_THE_CODE
        if status and get_ident() == thread and not is_libraries:
            called[:] = [status if isinstance(status, int) else 1, users_line(sys._getframe(2))]

    def at_exit():
        if called and os.getpid() == pid:
            tell("exits", message="sys.exit", count=called[0], **called[1])

    if not _hooked:
        _hooked.append(True)
        call_before(sys, "exit", before_exit)
        atexit.register(at_exit)


def before_mpi():
    tell("mpi-begins", **users_line(sys._getframe(1)))


def after_mpi():
    tell("mpi-ready")
    hook_exit()


def hook_groups(module):
    hook_exit()
    told = [float("inf")]

    def notice(_instance, frame):
        if frame.f_code.co_name in ("_new_process_group_helper", "monitored_barrier"):
            seconds = frame.f_locals["timeout"].total_seconds()
            if seconds < min(told):
                told.append(seconds)
                tell("waits-at-most", seconds=seconds)

    if hasattr(module, "_update_default_pg"):  # torch 1.8
        call_before(module, "_update_default_pg", lambda group, *_: hasattr(group, "rank") and tell(
            "joined-group", count=group.rank(), workers=group.size()))
    if hasattr(module, "_check_single_tensor"):
        _hook_all_reduce(module)
    if isinstance(getattr(module.Backend, "GLOO", None), str):  # both ask whether it is
        module.Backend.GLOO = Noticed(module.Backend.GLOO, notice)


def hook_meeting(module):
    def before():
        frame = sys._getframe(2)
        asked = frame.f_locals
        if frame.f_code.co_name == "_create_c10d_store" and not os.environ.get("TORCHELASTIC_USE_AGENT_STORE"):
            tell("meets-at", path="%s:%d" % (asked["hostname"], asked["port"]), count=asked["rank"], workers=asked["world_size"],
                 seconds=asked["timeout"].total_seconds(), **users_line(frame))

    if hasattr(module, "_torchelastic_use_agent_store"):  # torch 1.9; where the store is made
        call_before(module, "_torchelastic_use_agent_store", before)


def _is_gradient(tensor, values):
    """Of a parameter among them, or its `data`."""
    grads = (getattr(each, "grad", None) for each in values if getattr(each, "is_leaf", False) is True and getattr(each, "requires_grad", False))
    return any(each is tensor or each.data_ptr() == tensor.data_ptr() for each in grads if each is not None)


def _hook_all_reduce(module):
    """A rank that sums up the gradients of its parameters with the other ranks' by itself."""
    original, calls = module._check_single_tensor, []

    def notice(tensor, *_):
        calls.append(None)
        frame = called = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__", "").startswith("torch."):
            frame = frame.f_back
        if called.f_code.co_name == "all_reduce" and frame is not None and frame.f_code.co_flags & _OF_FUNCTION:
            values = frame.f_locals
            if _is_gradient(tensor, list(values.values())):
                data_parallel.append(True)
            if type(values) is dict:
                values.clear()  # CPython keeps what was looked at so (up to 3.12)
        if data_parallel or len(calls) == _MOST_CALLS:
            module._check_single_tensor = original

    call_before(module, "_check_single_tensor", notice)


def hook_data_parallel(module):
    kind = module.DistributedDataParallel
    kind._ddp_init_helper = Noticed(kind._ddp_init_helper, lambda *_: data_parallel.append(True))


def _listeners(port):
    """The sockets that listen at that port of this machine."""
    found = set()
    for name in ("tcp", "tcp6"):
        with open("/proc/self/net/" + name) as lines:
            rows = [line.split() for line in lines][1:]
        found.update("socket:[%s]" % row[9] for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port)
    return found


def _has_one(process, sockets):
    folder = "/proc/%s/fd/" % process
    try:
        return any(os.readlink(folder + number) in sockets for number in os.listdir(folder))
    except OSError:
        return False  # it is gone, or another user's


def taken_port(trace):
    """Of the process that was to listen for the others of its job: who listens there instead."""
    if not trace.is_raised_in("/rendezvous.py", "_create_c10d_store") \
            and not trace.is_raised_in("/static_tcp_rendezvous.py", "next_rendezvous"):
        return {}
    known = trace.entries[-1][0].f_locals
    owner = known.get("self")
    port, rank = known.get("port", getattr(owner, "master_port", None)), known.get("rank", getattr(owner, "rank", None))
    sockets = _listeners(port) if rank == 0 else set()
    if not sockets or _has_one("self", sockets):
        return {}
    taken = {"error_number": EADDRINUSE, "count": port}
    holder = next((each for each in filter(str.isdigit, os.listdir("/proc")) if _has_one(each, sockets)), None)
    if holder is not None:
        with open("/proc/%s/cmdline" % holder, errors="replace") as command:
            taken.update(child=int(holder), path=command.read(_MOST_OF_COMMAND).rstrip("\0"))
    return taken
