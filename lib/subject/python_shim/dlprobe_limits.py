"""What more is known of a limit that an exception says was reached (see dlprobe_hooks.py, which loads this for one)."""
import os
import sys
from errno import EACCES, EAGAIN, EDQUOT, EFBIG, EMFILE, ENOMEM, ENOSPC
from stat import S_ISREG

from dlprobe_start import FOLDER
from dlprobe_trace import absolute, users_place, users_place_in_words

_HARDLY_ANYTHING = 1 << 16  # bytes: what is left where a write was cut short
_MOST_ENTRIES = 20000  # of a folder: they take 50 ms
_LONGEST_SOCKET_NAME = 107  # bytes, unix(7)


def _is_written(file, kind=str):
    return type(file).__module__ in ("_io", "tempfile") and isinstance(getattr(file, "name", None), kind) \
        and not {"w", "a", "x", "+"}.isdisjoint(str(getattr(file, "mode", "")))


def _full_file(trace):
    """The file that could not be made or could not grow; None: it is not known."""
    name = getattr(trace.error, "filename", None)
    if trace.is_raised_in("multiprocessing/synchronize.py", "__init__"):
        return "/dev/shm/"  # sem_overview(7)
    if trace.is_raised_in("multiprocessing/shared_memory.py", "__init__"):
        return "/dev/shm/" + name.lstrip("/")  # shm_overview(7)
    if name is not None:
        return absolute(os.fsdecode(name))
    return _file_written_in(trace.entries)


def _file_written_in(entries):
    for frame, _line in reversed(entries):
        for value in frame.f_locals.values():
            if _is_written(value):
                return absolute(value.name)
            if _is_written(value, int):  # of os.fdopen, mostly of tempfile.mkstemp, and closed meanwhile
                return os.path.join(_temporary_folder(), "")
    return None


def _fdinfo(process, number, name):
    with open("/proc/%s/fdinfo/%s" % (process, number)) as lines:
        return next(line.split()[1] for line in lines if line.startswith(name))


def _file_open_for_writing(can_grow_no_more):
    """The first of the process's regular files of which that is so; None: there is none."""
    for number in sorted(map(int, os.listdir("/proc/self/fd"))):
        try:
            status = os.fstat(number)
            is_written = S_ISREG(status.st_mode) and int(_fdinfo("self", number, "flags:"), 8) & os.O_ACCMODE
            if is_written and can_grow_no_more(number, status):
                return os.readlink("/proc/self/fd/%d" % number)
        except OSError:
            pass  # the listing's own
    return None


def _has_no_room(file, _status=None):
    left = os.statvfs(file)
    return left.f_bavail * left.f_frsize < _HARDLY_ANYTHING or (left.f_files and not left.f_favail)


def _temporary_folder():
    return os.path.realpath(next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), "/tmp"))


def _fullness(path):
    """What is left where a file had no space, and whether that is the folder for temporary files."""
    if path is None:
        return {}
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):  # a temporary one is removed before this is told
        folder = os.path.dirname(folder)
    left, temporary = os.statvfs(folder), _temporary_folder()
    known = {"path": path, "free_bytes": left.f_bavail * left.f_frsize, "free_inodes": left.f_favail if left.f_files else None,
             "bytes": left.f_blocks * left.f_frsize, "limit": left.f_files,
             "temporary": os.path.join(os.path.realpath(path), "").startswith(os.path.join(temporary, ""))}
    return dict(known, **_made_since_the_start(temporary)) if known["temporary"] else known


def _made_since_the_start(folder):
    """The files in it that the user has written since the command began, as far as the first thousands of its entries go."""
    began, count, taken, seen = os.stat(os.path.join(FOLDER, "options")).st_mtime, 0, 0, 0
    for parent, _folders, names in os.walk(folder):
        for name in names[:_MOST_ENTRIES - seen]:
            try:
                status = os.lstat(os.path.join(parent, name))
            except OSError:
                continue  # it is gone
            if S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mtime >= began:
                count, taken = count + 1, taken + status.st_blocks * 512
        seen += len(names)
        if seen >= _MOST_ENTRIES:
            break
    return {"count": count, "made_bytes": taken}


def _cut_short(path):
    """Of a write that says no errno: its file's, if there is no room for it, or it may not grow."""
    if path is None or _has_no_room(os.path.dirname(path)):
        return _fullness(path)
    limit = _limits()["Max file size"]
    is_at_limit = limit != "unlimited" and os.path.getsize(path) >= int(limit)
    return {"path": path, "limit": int(limit), "wanted": "file size", "error_number": EFBIG} if is_at_limit else {}


def _file_of_torch(trace):
    save = trace.frame_of("torch/serialization.py", "save")
    file = save.f_locals.get("f") if save is not None else None
    if _is_written(file):
        return absolute(file.name)
    return absolute(os.fsdecode(file)) if isinstance(file, (str, os.PathLike)) else None


def _size_limit(trace):
    """Of a file that may not grow."""
    limit = _limits()["Max file size"]
    if limit == "unlimited":
        return {}
    path = _full_file(trace) or _file_open_for_writing(lambda _number, status: status.st_size >= int(limit))
    return {"path": path, "limit": int(limit), "wanted": "file size"}


def _locks_of_others():
    """Who has which of its bytes locked, by the device and number of the file as /proc/locks has it; the writers last."""
    locks, own = {}, str(os.getpid())
    with open("/proc/locks") as lines:  # "1: POSIX  ADVISORY  WRITE 4711 fe:00:2483149 0 EOF"
        table = [line.split() for line in lines]
    for words in sorted((each for each in table if each[1] in ("POSIX", "FLOCK")), key=lambda each: each[3] == "WRITE"):
        if words[4] != own and os.path.exists("/proc/%s" % words[4]):
            locks[words[5]] = (int(words[4]), int(words[6]))
    return locks


def _files_of(trace, is_database):
    """Of a database all that the process has open; else what the code names that was refused, from the inside."""
    if is_database:
        return ["/proc/self/fd/" + number for number in os.listdir("/proc/self/fd")]
    return [each for frame, _line in reversed(trace.entries) for each in frame.f_locals.values()
            if type(each) in (str, bytes) or isinstance(each, os.PathLike) or (_is_written(each) and not each.closed)]


def locked_file(trace):
    """Of a lock of a file that was refused at once, or of a database (SQLITE_BUSY, from Python 3.11 on): who has it."""
    is_database = (getattr(trace.error, "sqlite_errorcode", None) or 0) & 0xff == 5
    if not is_database and getattr(trace.error, "errno", None) not in (EACCES, EAGAIN):
        return {}
    locks = _locks_of_others()
    for file in _files_of(trace, is_database):
        try:
            status = os.stat(file.fileno() if _is_written(file) else file)
        except (OSError, ValueError):
            continue
        key = "%02x:%02x:%d" % (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
        process, first_byte = locks.get(key, (None, 0))
        # Those of a database, and of its index in WAL mode (https://sqlite.org/fileformat.html, walformat.html)
        if process and S_ISREG(status.st_mode) and (not is_database or first_byte >> 9 == 1 << 21 or 120 <= first_byte < 128):
            name = os.readlink(file) if is_database else getattr(file, "name", file)
            return {"wanted": "locked", "child": process, "path": absolute(os.fsdecode(name))}
    return {}


def refused_temporary_file(trace):
    """Of an exception for a file that may not be made: whether nothing can be made in the folder for temporary files."""
    folder = _temporary_folder()
    if trace.is_raised_in("/tempfile.py", "_get_default_tempdir"):
        return {"path": folder, "temporary": True}
    path = absolute(os.fsdecode(trace.error.filename))
    is_unusable = os.path.realpath(os.path.dirname(path)) == folder and not os.access(folder, os.W_OK | os.X_OK)
    return {"path": path, "temporary": True} if is_unusable else {}


def tasks_of_user():
    """How many processes and threads the user has, of those that can be seen: now, as who was refused one may soon end. None: a
    limit of its memory may have refused it."""
    limits = _limits()
    if limits["Max address space"] != "unlimited" or limits["Max data size"] != "unlimited":
        return None
    user, count = str(os.getuid()), 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/status" % process, errors="replace") as lines:
                status = {line.partition(":")[0]: line.split()[1] for line in lines if line.startswith(("Uid:", "Threads:"))}
            count += int(status["Threads"]) if status["Uid"] == user else 0
        except (OSError, KeyError) as error:
            if getattr(error, "errno", None) == EMFILE:
                raise  # it would be less than there are
    return count


def _long_socket_name(trace):
    """Of a listener whose socket would have a longer path than the kernel takes."""
    path = trace.entries[-1][0].f_locals.get("address")
    length = len(os.fsencode(path)) if isinstance(path, str) else 0
    return {"path": path, "count": length, "limit": _LONGEST_SOCKET_NAME, "wanted": "socket"} if length > _LONGEST_SOCKET_NAME else {}


def _limits():
    with open("/proc/self/limits") as lines:
        return {line[:26].strip(): line[26:].split()[0] for line in lines}


def _memory_limit():
    """Of the limits of a process's own memory the nearest, and what is taken of it."""
    limits = _limits()
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


def _largest_area():
    """Of the memory that fork counts once more, the largest area that is in one piece; what the kernel grants of it where it guesses
    (mm/util.c, __vm_enough_memory). Nothing if that is enough."""
    with open("/proc/sys/vm/overcommit_memory") as text, open("/proc/meminfo") as lines:
        if text.read().strip() != "0":
            return None
        limit = 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("MemTotal:", "SwapTotal:")))
    largest = size = 0
    with open("/proc/self/smaps") as lines:
        for line in lines:
            if line.startswith("Size:"):
                size = 1024 * int(line.split()[1])
            elif line.startswith("VmFlags:") and " ac" in line and " dc" not in line:  # accounted for, and copied
                largest = max(largest, size)
    return {"wanted": "copy", "bytes": largest, "limit": limit} if largest > limit else None


def refused_resource(trace, last):
    """Of the exception by which the system refused more: no space in a file system, or of the process's own memory. `last` is the
    one that it led to: a file that was closed meanwhile is within reach there."""
    number = getattr(trace.error, "errno", None)
    if number in (EDQUOT, ENOSPC):
        return _fullness(_full_file(trace) or _full_file(last) or _file_open_for_writing(_has_no_room))
    if number == EFBIG:
        return _size_limit(trace)
    if number is None and trace.is_raised_in("multiprocessing/connection.py", "__init__"):
        return _long_socket_name(trace)
    if number is None and isinstance(trace.error, OSError):
        return _cut_short(_file_written_in(trace.entries[-1:]))  # numpy's; what is read may be broken on a full disk, too
    if number == ENOMEM and not {"fork", "forkpty"}.isdisjoint(trace.entries[-1][0].f_code.co_names):
        copy = _largest_area()
        if copy:
            return copy
    return _mappings() or _cut_short(_file_of_torch(last)) or _memory_limit()


def _sender_in(handle):
    """The process that made a handle of torch: b"/torch_PID_...". None: it is another one."""
    parts = handle.split(b"_") if isinstance(handle, bytes) else []
    return int(parts[1]) if len(parts) > 2 and parts[0] == b"/torch" and parts[1].isdigit() else None


def gone_sender(trace):
    """Of an exception in making again a tensor, or a descriptor, that a process sent which has ended; or in asking a manager."""
    asks_manager = trace.frame_of("multiprocessing/managers.py", "_callmethod", "_connect", "_create")
    if asks_manager is not None and isinstance(trace.error, (ConnectionError, EOFError, FileNotFoundError)):
        return {"wanted": "manager"}
    made = trace.frame_of("torch/multiprocessing/reductions.py", "rebuild_cuda_tensor", "rebuild_storage_filename")
    if made is not None:
        handle = made.f_locals.get("ref_counter_handle", made.f_locals.get("handle"))
        sender = _sender_in(handle)
        if sender and not os.path.exists("/proc/%d" % sender):
            return {"wanted": "sender", "child": sender}
        block = "/dev/shm" + handle.decode("ascii", "replace") if sender else "/"
        return {} if os.path.exists(block) else {"wanted": "block", "child": sender, "path": block}
    asks = trace.frame_of("multiprocessing/resource_sharer.py", "get_connection")
    is_gone = asks is not None and isinstance(trace.error, (ConnectionRefusedError, FileNotFoundError))
    return {"wanted": "sender"} if is_gone else {}


def refused_gpu_memory(trace):
    """Who called the model, and whether autograd kept what it computed although it is in eval() mode."""
    is_model = [frame.f_code.co_filename.endswith("torch/nn/modules/module.py") for frame, _line in trace.entries]
    if True not in is_model:
        return {}
    at = is_model.index(True)
    model = trace.entries[at][0].f_locals.get("self")
    kind = sys.modules["torch"].Tensor
    values = [value for frame, _line in trace.entries[max(at - 1, 0):] for value in frame.f_locals.values() if type(value) is kind]
    keeps = object.__getattribute__(model, "__dict__").get("training") is False and any(each.grad_fn is not None for each in values)
    return {"called_at": users_place_in_words(trace.entries[:at]), "wanted": "graph" if keeps else None}


def _target_of(link):
    try:
        return os.readlink(link)
    except OSError:
        return None  # it is closed: as the listing's own


def _inotify_instances():
    """The user's limit of them, where it is reached. One that was inherited counts for each who has it."""
    with open("/proc/sys/fs/inotify/max_user_instances") as text:
        limit = int(text.read())
    count = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            folder = "/proc/%s/fd/" % process
            if os.stat("/proc/" + process).st_uid == os.geteuid():
                count += sum(_target_of(folder + number) == "anon_inode:inotify" for number in os.listdir(folder))
        except OSError:
            pass  # it is gone
    return "inotify instances (at most %d of a user)" % limit if count >= limit else None


def open_descriptors(limit):
    """How many are open, and what was refused where they are not it: the kernel's table of them, which does not shrink, never
    had place for as many as the limit allows."""
    count = len(os.listdir("/proc/self/fd")) - 1
    with open("/proc/self/status") as lines:
        places = next(int(line.split()[1]) for line in lines if line.startswith("FDSize:"))
    return {"count": count, "wanted": None if places >= limit else _inotify_instances() or "another resource"}


def _is_shared(number, parent):
    """Whether descriptor `number` has the position that the parent's has: others may move it between two looks."""
    for _ in range(20):
        position = _fdinfo("self", number, "pos:")
        if position != "0" and position == _fdinfo(parent, number, "pos:"):
            return True
    return False


def as_of_parent(number):
    """What descriptor `number` is, if that is a regular file or a socket that was opened before the fork; None: it is not."""
    parent = os.getppid()
    try:
        target = os.readlink("/proc/self/fd/%d" % number)
        if number <= 2 or target != os.readlink("/proc/%d/fd/%d" % (parent, number)):
            return None
        is_file = target.startswith("/") and not target.startswith(("/dev/", "/proc/"))
        return target if target.startswith("socket:") or (is_file and _is_shared(number, parent)) else None
    except (OSError, StopIteration):
        return None


def appends(number):
    """Whether what is written to it goes to its end, as all its writers want."""
    return bool(int(_fdinfo("self", number, "flags:"), 8) & os.O_APPEND)


def _held(entries):
    """The files and sockets that the objects have whose methods an exception came through, the innermost first."""
    for frame, _line in reversed(entries):
        code = frame.f_code
        holder = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount and users_place([(frame, 0)]) else None
        try:
            held = list(object.__getattribute__(holder, "__dict__").values())
        except (AttributeError, TypeError):
            continue
        for value in held:
            if type(value).__module__ in ("_io", "socket", "ssl") and hasattr(value, "fileno"):
                yield value


def _is_opened_here(path):
    """Whether the process has opened that file for itself, too: it need not read the one that it has since the fork."""
    here, there = "/proc/self/fd/", "/proc/%d/fd/" % os.getppid()
    return any(_target_of(here + number) == path != _target_of(there + number) for number in os.listdir(here))


def shared_with_parent(entries):
    """What was opened before the fork, and is read here and by whoever else has it since: the file or the connection that such an
    object has, else a file where a library raised the exception. None: there is none."""
    for value in _held(entries):
        try:
            target = as_of_parent(value.fileno())
            if target is not None and target.startswith("/"):
                return None if _is_opened_here(target) else target
            if target is not None and hasattr(value, "getpeername"):
                return "%s:%d" % value.getpeername()[:2]
        except (OSError, TypeError, ValueError):
            pass  # it is closed, or no connection of TCP
    if users_place(entries[-1:]):
        return None
    targets = (as_of_parent(int(number)) for number in os.listdir("/proc/self/fd"))
    return next((target for target in targets
                 if target is not None and target.startswith("/") and not _is_opened_here(target)), None)
