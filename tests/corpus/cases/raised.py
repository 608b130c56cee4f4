"""Jobs of bare multiprocessing that end by an exception, each raised somewhere else. With --healthy the same is raised, and
the program knows what to do. Python 3.8 and later."""
import multiprocessing
import os
import resource
import sys
from concurrent.futures import ProcessPoolExecutor


class TwoArguments(Exception):
    def __init__(self, what, where):
        super().__init__(what)
        self.where = where


def divide(number):
    return 1 // (number - 3)


def open_table():
    open("/nonexistent/table")


def use_all_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    kept = []
    while True:
        kept.append(os.dup(1))


def answer_by_function(_number):
    return lambda: 1


def fail_with_two(_number):
    raise TwoArguments("broken", "here")


def with_pool(work):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map_async(work, range(8)).get(timeout=5)


def with_executor(**options):
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork"), **options) as executor:
        return list(executor.map(divide if not options else abs, range(8)))


def with_spawned_process(number):
    process = multiprocessing.get_context("spawn").Process(target=divide, args=(number,))
    process.start()
    process.join()
    sys.exit(process.exitcode)


def send_what_is_below(method, with_what):
    """A function of this name stands below the main guard."""
    context = multiprocessing.get_context(method)
    work = globals().get("below_the_guard", abs)
    if with_what == "executor":
        with ProcessPoolExecutor(2, context) as executor:
            return list(executor.map(work, range(8)))
    with context.Pool(2) as pool:
        return pool.map_async(work, range(8)).get(timeout=3)


def leave_by_native_code(number):
    import ctypes
    if number == 7:
        ctypes.CDLL(None)._exit(1)


def with_others_that_wait(work):
    with ProcessPoolExecutor(3, multiprocessing.get_context("fork")) as executor:
        return list(executor.map(work, range(8)))


def listen_in_a_deep_folder():
    """As each worker of torch does that sends tensors."""
    import tempfile
    from multiprocessing.connection import Listener
    tempfile.tempdir = os.path.join(tempfile.gettempdir(), "n" * 90)
    os.mkdir(tempfile.tempdir)
    Listener(family="AF_UNIX").close()


def hide_the_reason():
    """As torch's loader does."""
    try:
        use_all_descriptors()
    except OSError:
        raise RuntimeError("no more workers can be reached") from None


def add_one(value):
    with value.get_lock():
        value.value += 1


def count_in_spawned(context):
    """Healthy only where the value is of the context that starts the process."""
    count = context.Value("i", 0)
    process = multiprocessing.get_context("spawn").Process(target=add_one, args=(count,))
    process.start()
    process.join()
    if process.exitcode:
        raise ValueError("the process has not counted")


def count_in_freed():
    """What only the arguments keep goes as soon as the process has started."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=add_one, args=(context.Value("i", 0),))
    process.start()
    process.join()
    sys.exit(process.exitcode)


def count_in_tasks(context):
    with context.Pool(2) as pool:
        pool.map_async(add_one, [context.Value("i", 0)]).get(timeout=5)


def work_with_closed(healthy):
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
        executor.submit(abs, 1).result()
        if healthy:
            return executor.submit(abs, 2).result()
    return executor.submit(abs, 2).result()


READER = """
import sys
from multiprocessing import resource_tracker, shared_memory
block = shared_memory.SharedMemory(sys.argv[1])
if len(sys.argv) > 2:
    resource_tracker.unregister(block._name, "shared_memory")
block.close()
"""


LOCKER = "import fcntl, sys, time; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); print(1, flush=True); time.sleep(float(sys.argv[2]))"


def lock(path):
    import fcntl
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_what_is_locked(seconds):
    """In a task: another program has locked the file, for so long."""
    import subprocess
    import tempfile
    import time
    with tempfile.NamedTemporaryFile(prefix="locked-") as file, multiprocessing.get_context("fork").Pool(1) as pool, \
            subprocess.Popen([sys.executable, "-c", LOCKER, file.name, str(seconds)], stdout=subprocess.PIPE) as program:
        program.stdout.readline()
        program.wait() if not seconds else time.sleep(1)
        try:
            pool.apply(lock, (file.name,))
        finally:
            program.kill()


def let_others_read(*arguments):
    """A block, of which another program reads, and which is then read once more."""
    import subprocess
    import time
    from multiprocessing.shared_memory import SharedMemory
    block = SharedMemory(create=True, size=4096)
    subprocess.run([sys.executable, "-c", READER, block.name, *arguments], check=True)
    time.sleep(1)
    SharedMemory(block.name).close()
    block.close()
    block.unlink()


class FromAfar(Exception):
    """Raised for the text that another process made of its exception."""


def divide_in_words(number):
    import traceback
    try:
        return divide(number), ""
    except ZeroDivisionError:
        return 0, traceback.format_exc()


def raise_words(words):
    raise FromAfar(words.strip().splitlines()[-1])


def read_words(on_failure):
    for _value, words in with_pool(divide_in_words):
        if words:
            on_failure(words)


def leave_with_what_it_handles(number):
    try:
        divide(number)
    except ZeroDivisionError:
        os._exit(4)


def call_back(seen):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map_async(abs, range(8), callback=lambda _values: seen["map"]).get(timeout=3)


def leave_a_task(number):
    if number == 3:
        os._exit(0)


def count_what_comes(work):
    """A job that ends well without a result that never comes."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = [pool.apply_async(work, (number,)) for number in range(8)]
        for result in results:
            result.wait(1)
        print(sum(result.ready() for result in results))


JOBS = {
    "words": lambda: read_words(raise_words),
    "handled-exit": lambda: with_others_that_wait(leave_with_what_it_handles),
    "callback": lambda: call_back({}),
    "left-task": lambda: count_what_comes(leave_a_task),
    "task": lambda: with_pool(divide),
    "executor-task": with_executor,
    "initializer": lambda: with_executor(initializer=open_table),
    "initializer-exits": lambda: with_executor(initializer=sys.exit, initargs=(3,)),
    "native-exit": lambda: with_others_that_wait(leave_by_native_code),
    "trainer": lambda: divide(3),
    "no-descriptor": use_all_descriptors, "no-descriptor-hidden": hide_the_reason,
    "socket": listen_in_a_deep_folder,
    "result": lambda: with_pool(answer_by_function),
    "not-rebuilt": lambda: with_pool(fail_with_two),
    "spawned": lambda: with_spawned_process(3),
    "pool-lacks": lambda: send_what_is_below("spawn", "pool"),
    "served-pool-lacks": lambda: send_what_is_below("forkserver", "pool"),
    "executor-lacks": lambda: send_what_is_below("spawn", "executor"),
    "lock-of-fork": lambda: count_in_spawned(multiprocessing.get_context("fork")),
    "lock-in-task": lambda: count_in_tasks(multiprocessing.get_context("fork")),
    "freed-lock": count_in_freed,
    "closed": lambda: work_with_closed(False),
    "removed-block": let_others_read,
    "locked": lambda: lock_what_is_locked(60),
}
# What would never come to an end, or fails whatever is done about it, works in the healthy twin.
HEALTHY = {"words": lambda: read_words(print), "handled-exit": lambda: with_others_that_wait(abs), "callback": lambda: call_back({"map": 1}),
           "left-task": lambda: count_what_comes(abs), "not-rebuilt": lambda: with_pool(abs), "no-descriptor": lambda: None, "no-descriptor-hidden": lambda: None, "result": lambda: with_pool(abs),
           "spawned": lambda: with_spawned_process(4), "native-exit": lambda: with_others_that_wait(abs),
           "freed-lock": lambda: count_in_spawned(multiprocessing.get_context("spawn")),
           "lock-of-fork": lambda: count_in_spawned(multiprocessing.get_context("spawn")), "closed": lambda: work_with_closed(True),
           "removed-block": lambda: let_others_read("untracked"), "locked": lambda: lock_what_is_locked(0)}

if __name__ == "__main__":
    kind = sys.argv[1]
    if "--healthy" not in sys.argv:
        def below_the_guard(number):
            return number

        JOBS[kind]()
    else:
        try:
            HEALTHY.get(kind, JOBS[kind])()
        except Exception as error:
            print("did without:", type(error).__name__)
