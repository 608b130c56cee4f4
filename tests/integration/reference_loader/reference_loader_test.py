#!/usr/bin/env python3
"""Tests of dlprobe-reference-loader from outside: what it delivers, what it says, what it leaves.

    reference_loader_test.py LOADER [TEST ...]

Runs itself in a mount namespace with a /dev/shm of its own where it may; where it may not, the tests
that look at the whole of /dev/shm are skipped.
"""

import itertools
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PRIVATE = "DLPROBE_TEST_PRIVATE_SHM"
SHM = "/dev/shm"
LIMIT_S = 60
COMBINATIONS = [(method, strategy) for method in ("fork", "spawn", "forkserver")
                for strategy in ("file_descriptor", "file_system")]
PAIRS = [("fork", "file_system"), ("spawn", "file_descriptor"), ("forkserver", "file_system")]  # where each method is enough
LOADER = ""


def enter_private_shm():
    """Starts this script again with a tmpfs of its own on /dev/shm, and says whether that worked."""
    if PRIVATE in os.environ:
        return
    mount = "mount --make-rprivate / && mount -t tmpfs -o size=512m tmpfs /dev/shm"
    wrap = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
    works = subprocess.run(wrap + ["sh", "-c", mount], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False).returncode == 0
    os.environ[PRIVATE] = "yes" if works else "no"
    if works:
        os.execvp(wrap[0], wrap + ["sh", "-c", mount + ' && exec "$@"', "sh", sys.executable] + sys.argv)


def needs_private_shm(test):
    return unittest.skipUnless(
        os.environ.get(PRIVATE) == "yes",
        "needs a mount namespace: run as root, or allow unprivileged user namespaces")(test)


def read_stat(folder):
    """The comm of a process or thread and the fields behind it, from the state on; None: it is gone."""
    try:
        with open(f"{folder}/stat", encoding="latin1") as file:
            text = file.read()
    except OSError:
        return None
    return text[text.index("(") + 1:text.rindex(")")], text.rpartition(")")[2].split()


def is_running(pid):
    """A zombie waits for its parent."""
    stat = read_stat(f"/proc/{pid}")
    return stat is not None and stat[1][0] not in "ZX"


def children_of(pid):
    """All descendants, as {pid: comm}."""
    parents, names = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        if stat := read_stat(f"/proc/{entry}"):
            names[int(entry)], (_state, parent, *_) = stat
            parents[int(entry)] = int(parent)
    found = {pid}
    grown = True
    while grown:
        grown = {child for child, parent in parents.items() if parent in found} - found
        found |= grown
    return {child: names[child] for child in found - {pid}}


def wait_until(condition, limit=LIMIT_S):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def used_bytes(path):
    status = os.statvfs(path)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def wait_for_empty_shm():
    """A loader that was killed has a manager which cleans up 2 s later."""
    if not wait_until(lambda: used_bytes(SHM) == 0, 20):
        raise AssertionError(f"left in {SHM}: {os.listdir(SHM)}")


class Run:
    """A started loader and its progress lines."""

    def __init__(self, *args, before=()):
        read_end, write_end = os.pipe()
        self.process = subprocess.Popen(
            [*before, LOADER, "--progress-fd", str(write_end), *args], pass_fds=[write_end],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        os.close(write_end)
        self.lines = os.fdopen(read_end, encoding="utf-8")
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.lines.close()

    @property
    def pid(self):
        return self.process.pid

    def next_event(self):
        """The next progress line; None at the end."""
        line = self.lines.readline()
        if not line:
            return None
        self.events.append(json.loads(line))
        return self.events[-1]

    def wait_for(self, event, count=1):
        while count > 0:
            line = self.next_event()
            if line is None:
                raise AssertionError(f"no more progress lines: {self.process.communicate()}")
            count -= line["event"] == event
        return self.events[-1]

    def finish(self):
        """Reads the rest. Returns (exit status, stdout, stderr)."""
        while self.next_event():
            pass
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err

    def of(self, event):
        return [line for line in self.events if line["event"] == event]

    def texts(self, event):
        return [line["text"] for line in self.of(event)]


def run(*args, before=()):
    with Run(*args, before=before) as loader:
        status, out, err = loader.finish()
        return loader, status, out, err


def write_bmp(path, width=40, height=30):
    row = bytes((x * 7) % 256 for x in range(width * 3)) + b"\0" * (-width * 3 % 4)
    pixels = row * height
    header = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 0, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(header + info + pixels)


SMALL = ("--sample-shape", "3x32x32", "--image-size", "64x64")


class Delivery(unittest.TestCase):
    ARGS = (*SMALL, "--workers", "3", "--batch-size", "7", "--images", "100", "--epochs", "2", "--verify")

    def check_order(self, loader):
        batches = loader.of("batch")
        self.assertEqual([(b["epoch"], b["index"]) for b in batches],
                         [(epoch, index) for epoch in range(2) for index in range(15)])
        orders = []
        for epoch in range(2):
            images = [i for b in batches if b["epoch"] == epoch for i in b["images"]]
            self.assertEqual(sorted(images), list(range(100)))
            orders.append(images)
        self.assertNotEqual(orders[0], orders[1], "not shuffled anew")
        self.assertEqual(batches[-1]["samples"], 100 % 7)
        return [b["checksum"] for b in batches]

    def test_every_image_once_and_in_order_whatever_the_method(self):
        wanted = None
        # Each method and each strategy has both.
        extras = itertools.cycle(((), ("--pin-memory", "--persistent-workers"), ("--pin-memory", "--persistent-workers"), ()))
        variants = [("--start-method", m, "--sharing-strategy", s, *extra) for (m, s), extra in zip(COMBINATIONS, extras)]
        for variant in [("--workers", "0"), *variants]:
            with self.subTest(variant):
                loader, status, _, err = run(*self.ARGS, *variant)
                self.assertEqual((status, err), (0, ""))
                self.assertEqual(loader.events[0]["event"], "hello")
                self.assertEqual(loader.events[-1]["event"], "done")
                self.assertEqual(loader.events[-1]["images"], 200)
                sums = self.check_order(loader)
                wanted = wanted or sums
                self.assertEqual(sums, wanted, "the same bytes by every way")

    def test_another_seed_is_another_order(self):
        orders = [[b["images"] for b in run(*self.ARGS, "--seed", seed)[0].of("batch")]
                  for seed in ("1", "1", "2")]
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])

    def test_more_batches_than_the_data_has(self):
        loader, status, _, _ = run(*SMALL, "--images", "10", "--batch-size", "4", "--batches", "6", "--verify")
        self.assertEqual(status, 0)
        images = [i for b in loader.of("batch") for i in b["images"]]
        self.assertEqual(len(images), 24)
        self.assertEqual(sorted(images[:10]), list(range(10)))
        self.assertEqual(sorted(images[10:20]), list(range(10)))

    def test_every_dtype(self):
        for dtype, size in (("float32", 4), ("float16", 2), ("bfloat16", 2), ("uint8", 1)):
            with self.subTest(dtype):
                loader, status, _, err = run(*SMALL, "--dtype", dtype, "--batches", "1", "--batch-size", "4")
                self.assertEqual((status, err), (0, ""))
                self.assertEqual(loader.of("batch")[0]["bytes"], 4 * 3 * 32 * 32 * size + 4 * 8)


class Images(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_broken_images_are_named_once_and_replaced(self):
        os.mkdir(self.path("below"))
        for i in range(6):
            write_bmp(self.path(f"below/{i}.BMP"))
        for name in ("empty.jpg", "junk.png"):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write("x" * 100 if name == "junk.png" else "")
        os.mkfifo(self.path("fifo.jpg"))
        loader, status, _, _ = run(*SMALL, "--data", self.folder.name, "--batch-size", "4", "--epochs", "3",
                                   "--verify")
        self.assertEqual(status, 0)
        self.assertEqual(loader.of("hello")[0]["images"], 8)
        self.assertEqual(sorted(os.path.basename(t.split(":")[0]) for t in loader.texts("broken-image")),
                         ["empty.jpg", "junk.png"])
        self.assertEqual(loader.of("done")[0]["broken"], 2)
        for batch in loader.of("batch"):
            self.assertEqual(len(batch["images"]), 4)

    def test_only_broken_images_is_a_failure(self):
        with open(self.path("a.jpg"), "w", encoding="ascii") as file:
            file.write("no image")
        loader, status, _, err = run(*SMALL, "--data", self.folder.name)
        self.assertEqual(status, 1)
        self.assertIn("none of the 1 images can be decoded", err)
        self.assertIn("none of the 1 images can be decoded", loader.texts("error")[0])

    def test_a_folder_without_images_is_a_usage_error(self):
        for folder in (self.folder.name, self.path("missing"), __file__):
            with self.subTest(folder):
                _, status, _, err = run("--data", folder)
                self.assertEqual(status, 2)
                self.assertEqual(err.count("\n"), 1)
                self.assertIn(folder, err)

    def test_a_file_name_that_is_no_utf8(self):
        write_bmp(os.fsencode(self.path("")) + b"\xff\xfe.bmp")
        for method in ("fork", "spawn"):
            _, status, _, err = run(*SMALL, "--data", self.folder.name, "--batches", "1", "--start-method", method)
            self.assertEqual((status, err), (0, ""))


class Usage(unittest.TestCase):
    def test_each_mistake_is_one_line_and_exit_2(self):
        # One of each place that refuses them; tests/unit/tools has the others.
        mistakes = [
            "--sample-shape 3x", "--workers 1.5", "--workers ten", "--workers", "--batch-size 99999999999999999999",
            "--batch-size 65536 --sample-shape 65536x65536x65536", "--dtype float8", "--device cuda:x",
            "--images 1000000 --image-size 16384x16384", "--image-size 256", "--step half", "--progress-fd 99",
            "--no-such-option", "word", "--fault nothing", "--fault shm-leak:", "--fault shm-leak:after", "--fault shm-leak:after=0",
            "--fault shm-exhausted:mode=x", "--fault shm-exhausted:size=1", "--fault shm-stale-files:bytes=900t",
            "--fault lock-cycle --workers 0", "--fault oom-killed-by-cgroup",
        ]
        for mistake in mistakes:
            with self.subTest(mistake):
                done = subprocess.run([LOADER, *mistake.split(" ")], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_an_unknown_fault_lists_the_known_ones(self):
        done = subprocess.run([LOADER, "--fault", "x"], capture_output=True, text=True, check=False)
        for name in ("shm-too-small", "shm-inodes-exhausted", "leaked-semaphores", "consumer-stuck"):
            self.assertIn(name, done.stderr)

    def test_cuda_without_a_cuda_device(self):
        done = subprocess.run([LOADER, *SMALL, "--device", "cuda", "--batches", "1"], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            self.skipTest("this machine and this libtorch have CUDA")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--device cuda", done.stderr)

    def test_help_and_version(self):
        for option in ("--help", "--version"):
            done = subprocess.run([LOADER, option], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Progress(unittest.TestCase):
    def test_a_reader_that_has_gone_does_no_harm(self):
        with Run(*SMALL) as loader:
            loader.wait_for("hello")
            loader.lines.close()
            out, err = loader.process.communicate(timeout=LIMIT_S)
            self.assertEqual((loader.process.returncode, out, err), (0, "", ""))

    def test_without_a_reader_a_summary_is_printed(self):
        done = subprocess.run([LOADER, *SMALL], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("256 images", done.stdout)

    def test_a_reader_that_does_not_read_does_no_harm(self):
        with Run(*SMALL, "--batch-size", "1", "--batches", "1500", "--step", "none") as loader:
            out, err = loader.process.communicate(timeout=LIMIT_S)
            self.assertEqual((loader.process.returncode, err), (0, ""))
            loader.finish()  # every line that did come is whole
            self.assertLess(len(loader.of("batch")), 1500)

    def test_pinning_without_cuda_is_noted(self):
        loader, status, _, _ = run(*SMALL, "--pin-memory", "--device", "cpu", "--batches", "1")
        self.assertEqual(status, 0)
        self.assertEqual(len(loader.of("note")), 1)


class Ends(unittest.TestCase):
    """However it ends, nothing is left."""

    ENDLESS = (*SMALL, "--workers", "2", "--batch-size", "16", "--batches", "1000000")

    def check_names(self, loader, method, strategy):
        wanted = ["dlp-worker", "dlp-worker"]
        wanted += ["dlp-forkserver"] if method == "forkserver" else []
        wanted += ["dlp-shm-manager"] if strategy == "file_system" else []
        # A process that was just forked still has its parent's name.
        wait_until(lambda: sorted(children_of(loader).values()) == sorted(wanted))
        self.assertEqual(sorted(children_of(loader).values()), sorted(wanted))
        with open(f"/proc/{loader}/comm", encoding="ascii") as file:
            self.assertEqual(file.read(), "dlp-loader\n")

    def check(self, method, strategy, kill, status, text=""):
        """`kill` gets the loader's pid and its children by name."""
        with self.subTest(method=method, strategy=strategy), Run(
                *self.ENDLESS, "--start-method", method, "--sharing-strategy", strategy) as loader:
            loader.wait_for("batch", 5)
            self.check_names(loader.pid, method, strategy)
            children = children_of(loader.pid)
            kill(loader.pid, {name: pid for pid, name in children.items()})
            ended, _, err = loader.finish()
            self.assertEqual(ended, status)
            self.assertIn(text, err)
            if text:
                self.assertIn(text, loader.texts("error")[0])
            self.assertTrue(wait_until(lambda: not any(map(is_running, children)), 20),
                            f"left: {[n for p, n in children.items() if is_running(p)]}")
            pids = (loader.pid, *children)
            left = [name for name in os.listdir(SHM) if name.startswith("torch_") and int(name.split("_")[1]) in pids]
            self.assertEqual(left, [])

    def check_all(self, kill, status, text="", needs="", combinations=COMBINATIONS):
        for method, strategy in combinations:
            if needs in (method, strategy, ""):
                self.check(method, strategy, kill, status, text)

    def test_killed_main_process(self):
        self.check_all(lambda main, _: os.kill(main, signal.SIGKILL), -signal.SIGKILL)

    def test_interrupt(self):
        # As a terminal does it: to every process of the group.
        self.check_all(lambda main, _: os.killpg(main, signal.SIGINT), -signal.SIGINT, combinations=PAIRS)

    def test_terminate(self):
        self.check_all(lambda main, _: os.kill(main, signal.SIGTERM), -signal.SIGTERM, combinations=PAIRS)

    def test_killed_worker(self):
        self.check_all(lambda _, names: os.kill(names["dlp-worker"], signal.SIGKILL), 1, "signal 9 (SIGKILL")

    def test_crashed_worker(self):
        self.check_all(lambda _, names: os.kill(names["dlp-worker"], signal.SIGSEGV), 1, "signal 11 (SIGSEGV", needs="fork")

    def test_killed_manager(self):
        self.check_all(lambda _, names: os.kill(names["dlp-shm-manager"], signal.SIGKILL), 1, "manager of shared memory",
                       needs="file_system")

    def test_killed_fork_server(self):
        self.check_all(lambda _, names: os.kill(names["dlp-forkserver"], signal.SIGKILL), 1, "fork server",
                       needs="forkserver")

    @needs_private_shm
    def test_shm_is_empty_after_a_normal_end(self):
        wait_for_empty_shm()
        for method, strategy in COMBINATIONS:
            run(*SMALL, "--start-method", method, "--sharing-strategy", strategy)
            self.assertEqual(os.listdir(SHM), [])
            self.assertEqual(used_bytes(SHM), 0)


class Forecast(unittest.TestCase):
    def pages(self, size):
        return -(-size // 4096) * 4096

    @needs_private_shm
    def test_peak_is_the_forecast_when_the_training_loop_is_slow(self):
        for method, strategy in COMBINATIONS:
            for shape, batch in (((3, 64, 64), 16), ((1, 200, 150), 5))[:2 if method == "fork" else 1]:
                header = 64 if strategy == "file_system" else 0
                sample = 4 * shape[0] * shape[1] * shape[2]
                wanted = (2 * 3 + 1) * (self.pages(batch * sample + header) + self.pages(batch * 8 + header))
                wait_for_empty_shm()
                with self.subTest(method=method, strategy=strategy, shape=shape), Run(
                        "--workers", "2", "--prefetch-factor", "3", "--batch-size", str(batch), "--batches", "100000",
                        "--sample-shape", "x".join(map(str, shape)), "--start-method", method,
                        "--sharing-strategy", strategy) as loader:
                    peak = 0
                    for _ in range(5):
                        # A stopped training loop is a very slow one: the workers fill all there is.
                        loader.wait_for("batch", 2)
                        os.kill(loader.pid, signal.SIGSTOP)
                        wait_until(lambda: used_bytes(SHM) >= wanted, 3)
                        peak = max(peak, used_bytes(SHM))
                        os.kill(loader.pid, signal.SIGCONT)
                        if peak >= wanted:
                            break
                    self.assertLess(abs(peak - wanted) / wanted, 0.1, f"{peak} instead of {wanted}")


class Faults(unittest.TestCase):
    ARGS = ("--sample-shape", "3x128x128", "--workers", "2", "--batch-size", "16")

    @classmethod
    def setUpClass(cls):
        _, status, _, err = run(*SMALL, "--fault", "leaked-semaphores", "--batches", "1")
        if status == 2:
            raise unittest.SkipTest(f"faults need a mount namespace of their own: {err}")

    def setUp(self):
        self.before = os.listdir(SHM)

    def tearDown(self):
        self.assertEqual(os.listdir(SHM), self.before, "the machine's own /dev/shm")

    def shm_of(self, loader):
        return f"/proc/{loader.pid}/root/dev/shm"

    def each(self, fault, *more):
        for strategy in ("file_descriptor", "file_system"):
            with self.subTest(fault=fault, strategy=strategy):
                yield run(*self.ARGS, "--sharing-strategy", strategy, "--fault", fault, *more)

    def test_too_small(self):
        for loader, status, _, err in self.each("shm-too-small"):
            self.assertEqual(status, 1)
            self.assertIn("unable to allocate shared memory(shm) for file </torch_", err)
            self.assertIn("ENOSPC", loader.texts("error")[0])

    def test_exhausted_is_an_error_of_the_allocation(self):
        for loader, status, _, err in self.each("shm-exhausted"):
            self.assertEqual(status, 1)
            self.assertIn("ENOSPC", err)
            self.assertGreaterEqual(len(loader.of("batch")), 8)

    def test_exhausted_with_sparse_files_is_a_sigbus(self):
        for loader, status, _, err in self.each("shm-exhausted:mode=sigbus,after=3"):
            self.assertEqual(status, 1)
            self.assertIn("ERROR: Unexpected bus error encountered in worker.", err)
            self.assertIn("signal 7 (SIGBUS", loader.texts("error")[0])
            self.assertEqual(len(loader.of("batch")), 3)

    def test_no_inodes(self):
        for loader, status, _, err in self.each("shm-inodes-exhausted"):
            self.assertEqual(status, 1)
            self.assertIn("unable to open shared memory object", err)
            self.assertGreaterEqual(len(loader.of("batch")), 8)

    def test_lost_batch_hangs_until_the_bound(self):
        for loader, status, _, err in self.each("batch-lost-in-worker:seconds=2,after=3"):
            self.assertEqual(status, 1)
            self.assertRegex(err, r"batch \d+ is lost in the send thread: unable to allocate")
            lost = re.search(r"batch (\d+) is lost", err).group(1)
            self.assertIn(f"batch {lost} did not come", loader.texts("error")[-1])
            self.assertEqual(len(loader.of("batch")), int(lost))

    def test_stale_files(self):
        with Run(*self.ARGS, "--fault", "shm-stale-files:files=3,bytes=3m") as loader:
            loader.wait_for("batch")
            names = [n for n in os.listdir(self.shm_of(loader)) if not n.startswith(f"torch_{loader.pid}_")]
            creators = {int(n.split("_")[1]) for n in names}
            self.assertEqual(len(creators & {int(p) for p in os.listdir("/proc") if p.isdigit()}), 0)
            self.assertEqual(sum(n.startswith("torch_") for n in names), 3)
            self.assertGreaterEqual(used_bytes(self.shm_of(loader)), 3 << 20)
            self.assertEqual(loader.finish()[0], 0)

    def test_leaked_semaphores(self):
        with Run(*self.ARGS, "--fault", "leaked-semaphores:count=4") as loader:
            loader.wait_for("hello")
            names = [n for n in os.listdir(self.shm_of(loader)) if n.startswith("sem.")]
            self.assertEqual(len(names), 4)
            for name in names:
                self.assertRegex(name, r"^sem\.mp-[0-9a-z_]{8}$")
            self.assertEqual(loader.finish()[0], 0)

    def test_another_job_lives_outside_of_the_tree_and_ends_with_the_loader(self):
        for end in ("finish", "kill"):
            with self.subTest(end), Run(*self.ARGS, "--fault", "shm-held-by-another-job") as loader:
                loader.wait_for("hello")
                job = int(re.search(r"another job \(pid (\d+)\)", str(loader.texts("fault"))).group(1))
                self.assertTrue(is_running(job))
                self.assertNotIn(job, children_of(loader.pid))
                self.assertNotEqual(os.getsid(job), os.getsid(loader.pid))
                self.assertTrue([n for n in os.listdir(self.shm_of(loader)) if n.startswith(f"torch_{job}_")])
                if end == "kill":
                    loader.process.kill()
                self.assertEqual(loader.finish()[0], -9 if end == "kill" else 1)
                self.assertTrue(wait_until(lambda: not is_running(job), 20))

    def test_leak_by_killed_workers_leaves_their_named_segments(self):
        with Run(*self.ARGS, "--sharing-strategy", "file_system", "--fault", "shm-leak:after=2,times=2") as loader:
            loader.wait_for("fault", 3)
            loader.wait_for("batch", 2)
            names = [n for n in os.listdir(self.shm_of(loader)) if n.startswith("torch_")]
            dead = [n for n in names if not os.path.exists("/proc/" + n.split("_")[1])]
            self.assertGreaterEqual(len(dead), 4)
            self.assertIn("dlp-shm-manager", children_of(loader.pid).values())
            self.assertEqual(loader.finish()[0], 0)

    def test_leak_by_kept_batches_grows(self):
        for strategy in ("file_descriptor", "file_system"):
            with self.subTest(strategy), Run(*self.ARGS, "--sharing-strategy", strategy, "--fault",
                                             "shm-leak:mode=keep,times=2") as loader:
                loader.wait_for("batch", 12)
                kept = 10 * 16 * 3 * 128 * 128 * 4
                self.assertGreaterEqual(used_bytes(self.shm_of(loader)), kept)
                self.assertEqual(loader.finish()[0], 0)

    def test_kept_batches_end_where_there_is_no_descriptor_left(self):
        loader, status, _, err = run(*SMALL, "--fault", "batches-kept-by-consumer:limit=48")
        self.assertEqual(status, 1)
        self.assertRegex(err + str(loader.texts("error")), "were lost on the way: the limit of open files|Too many open files")
        self.assertGreater(len(loader.of("batch")), 4)
        self.assertLess(len(loader.of("batch")), 24)

    def test_leaked_descriptors_of_each_kind_end_at_the_limit(self):
        for kind in ("file", "socket", "pipe"):
            with self.subTest(kind):
                loader, status, _, err = run(*SMALL, "--fault", f"fd-leak-in-worker:kind={kind},limit=100,count=8")
                self.assertEqual(status, 1)
                self.assertIn(f"open one more {kind}", str(loader.texts("error")))
                self.assertGreater(len(loader.of("batch")), 8)

    def test_kept_batches_without_descriptors_are_refused(self):
        for more in (("--sharing-strategy", "file_system"), ("--pin-memory",)):
            status, err = run(*SMALL, "--fault", "batches-kept-by-consumer", *more)[1::2]
            self.assertEqual(status, 2, err)
            self.assertIn("hold descriptors", err)

    def test_a_user_without_rights_can_do_it_too(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        if not os.access(LOADER, os.X_OK):
            self.skipTest("the loader is not executable")
        become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        reachable = subprocess.run([*become, LOADER, "--version"], capture_output=True, check=False)
        if reachable.returncode != 0:
            self.skipTest("the build folder is not readable for nobody")
        loader, status, _, err = run(*self.ARGS, "--fault", "shm-exhausted:after=2", before=become)
        if status == 2 and "unshare" in err:
            self.skipTest(f"unprivileged user namespaces are off: {err}")
        self.assertEqual(status, 1)
        self.assertIn("ENOSPC", loader.texts("error")[0])


def task_states(pid):
    """The letters of a process's threads; those of all its futex waits and the like are S."""
    stats = [read_stat(f"/proc/{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task")]
    return [stat[1][0] for stat in stats if stat]


class OtherFaults(unittest.TestCase):
    """What tests/cli/faults_test.py and deaths_test.py cannot see of a fault by what dlprobe finds."""

    ARGS = (*SMALL, "--workers", "2", "--batch-size", "4", "--batches", "12")

    def test_the_worker_that_was_asked_for_is_stopped_as_a_whole(self):
        with Run(*self.ARGS, "--fault", "worker-stopped:after=2,worker=1") as loader:
            loader.wait_for("fault")
            self.assertIn("worker 1 is stopped", loader.texts("fault")[0])
            workers = sorted(pid for pid, name in children_of(loader.pid).items() if name == "dlp-worker")
            self.assertTrue(wait_until(lambda: set(task_states(workers[1])) == {"T"}))
            self.assertNotIn("T", task_states(workers[0]))

    def test_threads_of_opencv_run_before_the_workers_start(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one CPU: OpenCV starts no threads; run it on two")
        with tempfile.TemporaryDirectory() as folder:
            write_bmp(os.path.join(folder, "a.bmp"))
            with Run(*self.ARGS, "--data", folder, "--step", "none", "--fault", "consumer-stuck") as loader:
                loader.wait_for("fault")
                self.assertGreater(len(task_states(loader.pid)), 1)

    def test_memory_that_nobody_wants_back_is_an_error(self):
        loader, status, _, _ = run(*self.ARGS, "--fault", "oom-killed-by-cgroup:limit=16m,worker=1,after=3")
        self.assertEqual(status, 1)
        self.assertIn("nobody ended it", loader.texts("error")[-1])


def main():
    global LOADER
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    enter_private_shm()
    LOADER = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)


if __name__ == "__main__":
    main()
