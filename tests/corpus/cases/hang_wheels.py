"""Libraries with threads of their own, used by the trainer before the fork and by its forked workers, as their wheels
really behave: polars, tokenizers and gRPC wait in the worker for threads that fork did not copy; OpenCV, pyarrow and
Numba's own layer start theirs anew.

Twin: the remedy that dlprobe names for the library.
"""
import functools
import os
import sys

KIND = sys.argv[1]
HEALTHY = "--healthy" in sys.argv
os.environ.update(POLARS_MAX_THREADS="2", RAYON_NUM_THREADS="2", NUMBA_NUM_THREADS="2")
if KIND == "tokenizers":  # its default switches them off in the copy, once the trainer has used them
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if HEALTHY else "true"
if KIND == "grpc":
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "1" if HEALTHY else "0"
if KIND == "numba":
    os.environ["NUMBA_THREADING_LAYER"] = "workqueue"

from hang_common import Loader, claim, expect, parser, train


def use_opencv():
    import cv2
    import numpy

    cv2.setNumThreads(4)
    cv2.GaussianBlur(numpy.full((1000, 1000, 3), 7, dtype="uint8"), (15, 15), 3)


def use_polars():
    import polars

    frame = polars.DataFrame({"key": [i % 100 for i in range(10_000)], "value": list(range(10_000))})
    frame.group_by("key").agg(polars.col("value").sum()).sort("key")


def use_pyarrow():
    import pyarrow

    pyarrow.set_cpu_count(4)
    table = pyarrow.table({"key": [i % 100 for i in range(10_000)], "value": list(range(10_000))})
    table.group_by("key", use_threads=True).aggregate([("value", "sum")])


@functools.cache
def tokenizer():
    import tokenizers

    words = tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return made


def use_tokenizers():
    tokenizer().encode_batch(["a b c a b"] * 100)


@functools.cache
def server():
    """A server in a process of its own, which has nothing to do with any fork; gives its address."""
    import subprocess

    program = ("import sys, grpc\n"
               "from concurrent import futures\n"
               "server = grpc.server(futures.ThreadPoolExecutor(2))\n"
               "call = grpc.unary_unary_rpc_method_handler(lambda request, context: request)\n"
               "server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('Echo', {'call': call}),))\n"
               "print(server.add_insecure_port('127.0.0.1:0'), flush=True)\n"
               "server.start()\n"
               "sys.stdin.read()\n")
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, start_new_session=True)
    server.process = process  # its input stays open as long as this process lives
    return f"127.0.0.1:{int(process.stdout.readline())}"


channels = []


def use_grpc():
    import grpc

    channels.append(grpc.insecure_channel(server()))  # one that was closed again would leave no threads
    channels[-1].unary_unary("/Echo/call")(b"x")
    del channels[1:]


@functools.cache
def total():
    import numba

    @numba.njit(parallel=True)
    def add(values):
        result = 0.0
        for i in numba.prange(values.shape[0]):
            result += values[i]
        return result

    return add


def use_numba():
    import numpy

    total()(numpy.ones(100_000))


USES = {"opencv": use_opencv, "polars": use_polars, "pyarrow": use_pyarrow, "tokenizers": use_tokenizers,
        "grpc": use_grpc, "numba": use_numba}
# What a worker's thread does where it hangs; the trainer waits for it.
HANGS = {"polars": "still", "tokenizers": "still", "grpc": "moves"}


def fetch(kind, workers, word, index):
    """A sample that needs the library."""
    if index < workers:
        claim(word)
    USES[kind]()
    return index


def main():
    options = parser(__doc__, USES).parse_args()
    hangs = not options.healthy and options.kind in HANGS
    USES[options.kind]()
    expect(options.workers + 1)
    word = HANGS[options.kind] if hangs else "moves"
    method = "forkserver" if options.healthy and options.kind == "polars" else "fork"
    loader = Loader(functools.partial(fetch, options.kind, options.workers, word), options, method)
    claim("still" if hangs else "moves")
    train(loader)


if __name__ == "__main__":
    main()
