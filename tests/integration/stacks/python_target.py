"""Stands still with many kinds of Python frames, and says itself which.

usage: python_target.py threads|gil|gc|subinterpreter|fork|exit|task|texts|failed-task

Every thread blocks on a line that first tells that it is there; then, for each thread, a line
"thread IDENT NATIVE_ID", its frames "frame LINE FILE FUNCTION", the innermost first, and at last
"end" are written. Fields are separated by tabs. With fork the child does so, after "pid N"; with
exit, task or texts there is "end" only; with failed-task the addresses of a task and a future come first.
A line on the standard input ends it.
"""

import asyncio
import concurrent.futures
import ctypes
import gc
import os
import sys
import threading
import time

ready_out, ready_in = os.pipe()
never_out, never_in = os.pipe()


def block(*_):
    os.write(ready_in, b"."), os.read(never_out, 1)


def inner():
    block()


def middle():
    inner()


def nested():
    middle()


class Worker:
    def method(self):
        block()

    @classmethod
    def class_method(cls):
        cls().method()

    class Part:
        @staticmethod
        def run():
            Worker.class_method()


def numbers():
    yield 1
    yield block()


def generator():
    for _ in numbers():
        pass


def delegating_generator():
    def delegate():
        yield from numbers()

    list(delegate())


def anonymous():
    (lambda: (lambda: block())())()


def list_comprehension():
    return [block() for _ in range(2)]


def nested_comprehension():
    return {inner: [block() for _ in range(1)] for inner in range(1)}


def generator_expression():
    return sum(block() for _ in range(2))


def größe():
    日本()


def 日本():
    𐌰()


def 𐌰():
    block()


def sleep():
    os.write(ready_in, b"."), time.sleep(1_000_000)


def recursion(depth=200):
    if depth == 0:
        block()
    else:
        recursion(depth - 1)


def callback_from_c():
    def key_function(item):
        block()
        return item

    sorted([2, 1], key=key_function)


def nested_callbacks():
    return max(map(lambda item: sorted([item], key=block), [1, 2]))


class Managed:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        block()


def context_manager():
    with Managed():
        time.monotonic()


def exception_handler():
    try:
        raise ValueError
    except ValueError:
        try:
            raise KeyError
        finally:
            block()


def over_many_lines():
    dict(
        first=1,
        second=dict(
            third=block(),
            fourth=2,
        ),
        fifth=[
            3,
            4,
        ],
    )


def coroutine():
    async def leaf():
        block()

    async def branch():
        await leaf()

    asyncio.new_event_loop().run_until_complete(branch())


def odd_file_name():
    exec(compile("\n\nclass Body:\n  block()", os.fsdecode(b"dir/odd\xff.py"), "exec"), globals())


def far_below():
    # Enough bytecode and lines for deltas that do not fit one entry of a line table.
    body = "".join("x = [{}]\n\n".format(", ".join(["len"] * 150)) for _ in range(20))
    far = body + "\n" * 400 + "x = [{}, block()]\n".format(", ".join(["len"] * 300))
    exec(compile(far, "far.py", "exec"), globals())
    exec(compile("def up():\n" + "\n" * 300 + " (\nlen,\n\n\nblock())\nup()", "up.py", "exec"), globals())


SCENES = [nested, Worker.Part.run, generator, delegating_generator, anonymous, list_comprehension,
          nested_comprehension, generator_expression, größe, sleep, recursion, callback_from_c, nested_callbacks,
          context_manager, exception_handler, over_many_lines, coroutine, odd_file_name, far_below]


def start(*scenes):
    threads = [threading.Thread(target=scene, name=scene.__name__, daemon=True) for scene in scenes]
    for thread in threads:
        thread.start()
    for _ in threads:
        os.read(ready_out, 1)


def frames_of(frame):
    while frame:
        name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        yield "frame\t{}\t{}\t{}\n".format(frame.f_lineno or 0, frame.f_code.co_filename, name)
        frame = frame.f_back


def report(own_frame):
    frames = sys._current_frames()
    frames[threading.get_ident()] = own_frame
    lines = []
    for thread in threading.enumerate():
        # After fork() a thread object still has the parent's.
        native_id = threading.get_native_id() if thread.ident == threading.get_ident() else thread.native_id
        lines.append("thread\t{}\t{}\n".format(thread.ident, native_id))
        lines.extend(frames_of(frames[thread.ident]))
    return "".join([*lines, "end\n"]).encode("utf-8", "surrogateescape")


def wait():
    os.write(1, report(sys._getframe())), os.read(0, 1)


def hold_gil():
    # PyDLL does not give the GIL away while it calls.
    read, text = ctypes.PyDLL(None).read, ctypes.create_string_buffer(1)
    os.write(1, report(sys._getframe())), read(0, text, 1)


def want_gil():
    os.write(ready_in, b".")
    while True:
        pass


def collect():
    gc.callbacks.append(block)
    gc.collect()


def subinterpreter():
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    interpreters.run_string(interpreters.create(),
                            "import os\ndef inside(): os.write({}, b'.'), os.read({}, 1)\ninside()".format(
                                ready_in, never_out))


def fork():
    child = os.fork()
    if child == 0:
        os.write(1, "pid {}\n".format(os.getpid()).encode())
        wait()
    else:
        os.waitpid(child, 0)


class Last:
    """Goes when the interpreter takes its modules down, and blocks that."""

    def __init__(self):
        self.write, self.read = os.write, os.read

    def __del__(self):
        self.write(1, b"end\n"), self.read(0, 1)


async def never():
    await asyncio.Event().wait()


async def items():
    yield await never()


async def task():
    os.write(1, b"end\n")
    async for _ in items():
        pass


def first_item():
    raise KeyError("first")


async def fail():
    first_item()


async def failed_task():
    failed = asyncio.ensure_future(fail())
    await asyncio.wait([failed])
    done = concurrent.futures.Future()
    try:
        first_item()
    except KeyError as error:
        done.set_exception(error)
    os.write(1, "{}\n{}\nend\n".format(id(failed), id(done)).encode())
    await never()


SHARED = "/data/global.lock"


class Lock:
    def __init__(self, path):
        self.path = path

    def poll(self):
        folder = "/data"
        while len(folder) < len(SHARED):
            wait()


def main():
    mode = sys.argv[1]
    if mode == "threads":
        start(*SCENES)
        wait()
    elif mode == "gil":
        start(want_gil)
        hold_gil()
    elif mode == "gc":
        start(collect)
        wait()
    elif mode == "subinterpreter":
        start(subinterpreter)
        wait()
    elif mode == "fork":
        fork()
    elif mode == "exit":
        sys.modules["last"] = Last()
    elif mode == "task":
        asyncio.run(task())
    elif mode == "texts":
        os.write(1, b"end\n")
        Lock("/data/own.lock").poll()
    elif mode == "failed-task":
        asyncio.run(failed_task())


main()
