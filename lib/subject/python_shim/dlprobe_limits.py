"""What more is known of a limit that an exception says was reached (see dlprobe_hooks.py, which loads this for one)."""
import os
from errno import EDQUOT, ENOSPC

from dlprobe_trace import absolute


def _full_file(trace):
    """The file that could not be made or could not grow; None: it is not known."""
    name = getattr(trace.error, "filename", None)
    if trace.is_raised_in("multiprocessing/synchronize.py", "__init__"):
        return "/dev/shm/"  # sem_overview(7)
    if trace.is_raised_in("multiprocessing/shared_memory.py", "__init__"):
        return "/dev/shm/" + name.lstrip("/")  # shm_overview(7)
    if name is not None:
        return absolute(os.fsdecode(name))
    for frame, _line in reversed(trace.entries):
        for value in frame.f_locals.values():
            is_file = type(value).__module__ in ("_io", "tempfile") and isinstance(getattr(value, "name", None), str)
            if is_file:
                return absolute(value.name)
    return None


def _fullness(trace):
    """What is left where a file had no space, and whether that is the folder for temporary files."""
    path = _full_file(trace)
    if path is None:
        return {}
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):  # a temporary one is removed before this is told
        folder = os.path.dirname(folder)
    left = os.statvfs(folder)
    temporary = next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), "/tmp")
    return {"path": path, "free_bytes": left.f_bavail * left.f_frsize, "free_inodes": left.f_favail if left.f_files else None,
            "bytes": left.f_blocks * left.f_frsize, "limit": left.f_files,
            "temporary": os.path.realpath(path).startswith(os.path.join(os.path.realpath(temporary), ""))}


def _memory_limit():
    """Of the limits of a process's own memory the nearest, and what is taken of it."""
    with open("/proc/self/limits") as lines:
        limits = {line[:26].strip(): line[26:].split()[0] for line in lines}
    with open("/proc/self/status") as lines:
        taken = {line.partition(":")[0]: line.split()[1] for line in lines if line.startswith(("VmSize", "VmData"))}
    found = {}
    for name, counter in (("Max address space", "VmSize"), ("Max data size", "VmData")):
        if limits[name] == "unlimited":
            continue
        limit, used = int(limits[name]), int(taken[counter]) * 1024
        if not found or limit - used < found["limit"] - found["bytes"]:
            found = {"limit": limit, "bytes": used, "wanted": name[4:]}
    return found


def _mappings():
    """Their number and limit, where the kernel grants no more; the last one or two it took back."""
    with open("/proc/sys/vm/max_map_count") as text:
        limit = int(text.read())
    with open("/proc/self/maps", "rb") as lines:
        count = sum(1 for _ in lines)
    return {"limit": limit, "count": count, "wanted": "mappings"} if count >= limit - limit // 100 else None


def refused_resource(trace, last):
    """Of the exception by which the system refused more: no space in a file system, or of the process's own memory. `last` is the
    one that it led to: a file that was closed meanwhile is within reach there."""
    if getattr(trace.error, "errno", None) in (EDQUOT, ENOSPC):
        return _fullness(trace) or _fullness(last)
    return _mappings() or _memory_limit()


def _position(process, number):
    with open("/proc/%s/fdinfo/%s" % (process, number)) as lines:
        return next(line.split()[1] for line in lines if line.startswith("pos:"))


def _is_shared(number, parent):
    """Whether descriptor `number` has the position that the parent's has: others may move it between two looks."""
    for _ in range(3):
        position = _position("self", number)
        if position != "0" and position == _position(parent, number):
            return True
    return False


def file_of_parent():
    """A regular file that was opened before the fork and is read by one position here and in the parent; None: there is none."""
    parent = os.getppid()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + number)
            is_file = target.startswith("/") and not target.startswith(("/dev/", "/proc/")) and int(number) > 2
            if is_file and target == os.readlink("/proc/%d/fd/%s" % (parent, number)) and _is_shared(number, parent):
                return target
        except (OSError, StopIteration):
            pass
    return None
