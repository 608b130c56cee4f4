"""The cases of the corpus: which job, on which /dev/shm, and what dlprobe must say of it."""
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial

from case import MIB, Case, between, equals, holds
from others import programs_of_others


def exhausted(name, job, **changes):
    # Certain or likely: on a busy machine the last look may be earlier than the last pages.
    arguments = {"first": "DLP0102", "severity": "error",
                 "never": ["DLP0103", "DLP0105", "DLP0106", "DLP0107"],
                 "evidence": {"shm_size": equals(64 * MIB), "shm_free": between(0, 20 * MIB + 4096),
                              "segment_size": between(20 * MIB, 20 * MIB + 4096),
                              "size_that_would_do": between(100 * MIB, 192 * MIB), "victim": holds("worker")}}
    return Case(name, job, **(arguments | changes))


def healthy(name, job, **changes):
    arguments = {"no_errors": True, "verdicts": ("pass", "warn")}
    return Case(name, job, **(arguments | changes))


def failures():
    """Real failures."""
    for method, strategy in (("fork", "file_descriptor"), ("fork", "file_system"),
                             ("spawn", "file_descriptor"), ("forkserver", "file_system")):
        yield exhausted(f"exhausted-{method}-{strategy}",
                        f"does_not_fit.py --step-ms 150 --start-method {method} --strategy {strategy}")
    # Not a job of PyTorch: the reference loader, which is not even started.
    yield Case("too-small-before-start", None, dlprobe_options=["--workers", "8", "--start-method", "fork"],
               first="DLP0101", severity="error", confidence="certain",
               evidence={"shm_size": equals(64 * MIB), "forecast": between(290 * MIB, 350 * MIB),
                         "size_that_would_do": between(320 * MIB, 512 * MIB)})
    for kind in ("psm", "torch"):
        yield Case(f"held-by-another-job-{kind}", "does_not_fit.py --healthy --step-ms 150", beside=[f"holder.py --kind {kind}"],
                   first="DLP0105", severity="error", confidence="certain", also=["DLP0102"],
                   evidence={"held_by_others": between(40 * MIB, 41 * MIB), "holder": holds("pid ")})
    yield Case("batch-lost-command", "lost_batch.py", dlprobe_options=["--for", "14s"], leaves_job=True,
               first="DLP0106", severity="error", confidence="certain",
               evidence={"shm_size": equals(64 * MIB), "shm_free": equals(0), "stalled_for": between(6, 15)})
    yield Case("batch-lost-pid", "lost_batch.py --strategy file_system", attach_after_s=4,
               dlprobe_options=["--for", "12s"], first="DLP0106", severity="error", confidence="certain",
               evidence={"shm_size": equals(64 * MIB), "stalled_for": between(6, 15)})
    yield Case("leak-of-killed-workers", "killed_workers.py --live-s 7", first="DLP0104", severity="error",
               confidence="certain", evidence={"leaked_bytes": between(8 * MIB, 32 * MIB)})
    yield Case("leak-left-at-end", "left_blocks.py", mount_options="size=512m", first="DLP0104", severity="warning", verdicts=("warn",),
               evidence={"leaked_files": between(16, 32), "leaked_bytes": between(16 * MIB, 32 * MIB)}, probe="run", needs="python")
    yield Case("leak-of-abandoned-iterators", "abandoned.py --rounds 16", mount_options="size=512m",
               first="DLP0104", severity="error", confidence="certain",
               evidence={"leaked_bytes": between(40 * MIB, 256 * MIB)})
    yield Case("stale-files-make-it-fail", "does_not_fit.py --healthy --step-ms 150",
               before=["killed_workers.py --everything --sample-mib 2"], settle_s=10.5, first="DLP0103",
               severity="error", confidence="certain", also=["DLP0102"],
               evidence={"stale_bytes": between(24 * MIB, 56 * MIB)})
    yield Case("inodes-exhausted", "healthy.py --strategy file_system --step-ms 200",
               mount_options="size=512m,nr_inodes=20",
               dlprobe_options=["--for", "12s"], leaves_job=True, first="DLP0108", severity="error", confidence="certain",
               never=["DLP0102", "DLP0101"])


def left_behind():
    """Left by jobs that are gone: worth a warning, no error."""
    yield healthy("stale-files", "healthy.py", mount_options="size=512m",
                  before=["killed_workers.py --everything"], settle_s=10.5, first="DLP0103", severity="warning",
                  confidence="certain", verdicts=("warn",),
                  evidence={"stale_bytes": between(12 * MIB, 32 * MIB), "holders": equals(0)})
    yield healthy("leaked-semaphores", "healthy.py --start-method spawn", before=["killed_spawn_job.py"],
                  settle_s=10.5, first="DLP0107", severity="warning", confidence="certain", verdicts=("warn",),
                  evidence={"leaked_semaphores": between(8, 32)})


def twins():
    """Healthy jobs that look like one of the failures."""
    for method in ("fork", "spawn", "forkserver"):
        for strategy in ("file_descriptor", "file_system"):
            yield healthy(f"healthy-large-{method}-{strategy}",
                          f"does_not_fit.py --healthy --step-ms 60 --start-method {method} --strategy {strategy}")
    yield healthy("healthy-bus-error-of-a-data-file", "bus_error.py", never=["DLP0102"])
    yield healthy("healthy-mapped-data-file", "bus_error.py --healthy", silent=True)
    yield healthy("healthy-cache-leaves-room", "lost_batch.py --healthy")
    yield healthy("healthy-workers-end", "killed_workers.py --healthy --live-s 4", silent=True)
    yield healthy("healthy-iterators-used-up", "abandoned.py --healthy --rounds 4", silent=True)
    yield healthy("healthy-spawn-job-ends", "killed_spawn_job.py --healthy", silent=True)
    for how in ("healthy", "tracked"):
        yield Case(f"no-blocks-left-{how}", f"left_blocks.py --{how}", mount_options="size=512m", quiet=True, verdicts=("pass",),
                   beside=["left_blocks.py"], probe="run", needs="python")
    yield healthy("healthy-rise-and-fall", "healthy.py --job rise_and_fall")
    for job in ("long_step", "busy_trainer", "persistent_idle", "slow_sample"):
        yield healthy(f"healthy-{job.replace('_', '-')}", f"healthy.py --job {job}", silent=True)
    yield healthy("healthy-kept-batches", "healthy.py --job kept_batches", silent=True)
    yield healthy("healthy-exits-nonzero", "healthy.py --job exits_nonzero --batch-size 10")
    yield healthy("healthy-sample-raises", "healthy.py --job sample_raises --batch-size 10")
    yield healthy("healthy-beside-another-job", "healthy.py", beside=["holder.py --mib 20"], silent=True)
    yield healthy("healthy-attached", "healthy.py --batches 200 --step-ms 40 --strategy file_system",
                  attach_after_s=3, dlprobe_options=["--for", "3s"], silent=True)


def looked_at(name, job, **changes):
    """A live job that `dlprobe deadlock` looks at from outside."""
    arguments = {"probe": "deadlock", "attach_when_ready": True, "dlprobe_options": ["--for", "3s"]}
    return Case(name, job, **(arguments | changes))


def hangs(name, job, first, **changes):
    """A hang, and that it is seen as what it is. Its twin is a job of its own."""
    arguments = {"first": first, "severity": "error"}
    return looked_at(f"hang-{name}", job, **(arguments | changes))


def runs(name, job, **changes):
    """A job that does not hang."""
    arguments = {"quiet": True, "verdicts": ("pass",)}
    return looked_at(f"runs-{name}", job, **(arguments | changes))


def hang_with_twin(name, job, first, **changes):
    yield hangs(name, job, first, **changes)
    kept = {key: value for key, value in changes.items() if key in ("needs", "modules", "pace")}
    if kept.get("pace") == "everywhere":
        kept["pace"] = "quick"
    yield runs(name, f"{job} --healthy", **kept)


def hangs_of_python():
    """Hangs that need no torch, each with its twin; and healthy jobs that stand still or spin."""
    pair = partial(hang_with_twin, needs="python")
    everywhere = partial(hang_with_twin, needs="python", pace="everywhere")
    slow = partial(hang_with_twin, needs="python", pace="slow")
    yield from everywhere("lock-at-fork-native", "hang_at_fork.py native", "DLP0301", confidence="certain")
    yield from pair("lock-at-fork-native-written", "hang_at_fork.py native-written --patience 5", "DLP0301")
    yield from slow("lock-at-fork-native-read", "hang_at_fork.py native-read", "DLP0301")
    yield from everywhere("lock-at-fork-time-zone", "hang_at_fork.py time-zone --patience 5", "DLP0301")
    yield from everywhere("pool-at-fork-openmp", "hang_at_fork.py openmp", "DLP0302")
    yield from pair("pool-at-fork-openmp-spinning", "hang_at_fork.py openmp-spinning", "DLP0302")
    yield from everywhere("lock-at-fork", "hang_at_fork.py lock", "DLP0306")
    yield from everywhere("lock-at-fork-rlock", "hang_at_fork.py rlock --patience 5", "DLP0306")
    yield from slow("lock-at-fork-file", "hang_at_fork.py file", "DLP0306")
    for kind in ("queue", "handler", "import"):
        yield from slow(f"lock-at-fork-{kind}", f"hang_at_fork.py {kind}", "DLP0306")
    for kind in ("condition", "executor"):
        yield from pair(f"pool-at-fork-{kind}", f"hang_at_fork.py {kind}", ("DLP0306", "DLP0302", "DLP0305"))
    for kind in ("native", "lock", "rlock", "processes"):
        yield from pair(f"cycle-{kind}", f"hang_cycle.py {kind}", "DLP0303")
    for kind in ("self-native", "self-processes"):
        yield from slow(f"cycle-{kind}", f"hang_cycle.py {kind}", "DLP0303")
    for kind in ("full-queue", "thread-of-an-import", "pool-of-an-import"):
        yield from everywhere(f"threads-{kind}", f"hang_threads.py {kind}", "DLP0303",
                              evidence={"threads_in_the_circle": equals(2)})
    yield from pair("threads-task-behind-task", "hang_threads.py task-behind-task", "DLP0303")
    yield from slow("threads-result-of-a-pool", "hang_threads.py result-of-a-pool", "DLP0305")
    for kind in ("exit-joins-a-thread", "result-in-own-loop", "queue-in-own-loop", "input-left-open", "own-server"):
        yield from pair(f"threads-{kind}", f"hang_threads.py {kind}", "DLP0303")
    yield from slow("threads-task-of-a-thread", "hang_threads.py task-of-a-thread", "DLP0303")
    yield from everywhere("threads-dead-filler", "hang_threads.py dead-filler", "DLP0305")
    for kind in ("credit-not-given-back", "last-item-not-put"):
        yield from pair(f"threads-{kind}", f"hang_threads.py {kind}", "DLP0303")
    unsure = {"severity": None, "verdicts": ("warn", "pass")}
    yield from pair("threads-saver", "hang_threads.py saver", "DLP0314", evidence={"your_code": holds("save")}, **unsure)
    yield from pair("threads-producer", "hang_threads.py producer", "DLP0313", evidence={"your_code": holds("fetch")}, **unsure)
    # A threading.Lock does not say who has it; that of the trainer is free.
    yield from slow("cycle-self-lock", "hang_cycle.py self-lock", "DLP0303")
    yield from slow("threads-answer-to-a-loop", "hang_threads.py answer-to-a-loop", "DLP0314", confidence="certain")
    yield from pair("cycle-handler", "hang_cycle.py handler", "DLP0303", confidence="certain")
    yield from pair("cycle-handler-queue", "hang_cycle.py handler-queue", "DLP0303", confidence="certain")
    yield from pair("cycle-gil", "hang_cycle.py gil", ("DLP0303", "DLP0307"))
    yield from everywhere("semaphore-holder-killed", "hang_peer.py semaphore-holder-killed", "DLP0304")
    yield from pair("pipe-without-writer", "hang_peer.py pipe-without-writer", "DLP0308")
    yield from pair("queue-without-producer", "hang_peer.py queue-without-producer", "DLP0308")
    yield from pair("stopped", "hang_peer.py stopped --patience 5", "DLP0311")
    yield from pair("manager-stopped", "hang_peer.py manager-stopped", "DLP0311")
    yield from slow("tcp-manager-stopped", "hang_peer.py tcp-manager-stopped", "DLP0311")
    for kind, pace in (("established", "quick"), ("not-accepted", "slow")):
        yield hangs(f"server-stopped-{kind}", f"hang_server.py {kind}", "DLP0311", needs="python", pace=pace,
                    confidence="certain", beside=["hang_server.py serve"])
    yield runs("server-that-answers", "hang_server.py established --healthy", needs="python", beside=["hang_server.py serve"])
    yield Case("runs-server-that-is-slow", "hang_server.py established --healthy", probe="deadlock", needs="python", pace="slow", quiet=True,
               verdicts=("pass",), attach_after_s=5, dlprobe_options=["--for", "3s"], beside=["hang_server.py serve-slowly"])
    yield from pair("socket-without-peer", "hang_peer.py socket-without-peer", "DLP0308")
    yield from pair("file-lock-circle", "hang_peer.py file-lock-circle", "DLP0303")
    yield from pair("record-lock-circle", "hang_peer.py record-lock-circle", "DLP0303")
    for kind in ("slots-not-given-back", "barrier-short-of-one", "full-queue-without-consumer", "ring-without-a-start",
                 "notify-before-wait"):
        yield from pair(kind, f"hang_closed.py {kind}", "DLP0303")
    yield from pair("lock-of-a-manager", "hang_closed.py lock-of-a-manager", ("DLP0303", "DLP0304"))
    yield from pair("semaphore-of-a-library", "hang_closed.py semaphore-of-a-library", "DLP0303")
    for kind, code in (("timed-lock-of-a-killed-one", "DLP0304"), ("eventfds-of-two", "DLP0314")):
        yield from slow(kind, f"hang_closed.py {kind}", code, severity="warning", verdicts=("warn",), dlprobe_options=["--for", "11s"])
    yield from everywhere("input-kept-open", "hang_closed.py input-kept-open", "DLP0308", evidence={"threads_that_could_write": equals(2)})
    yield from everywhere("task-that-failed", "hang_closed.py task-that-failed", "DLP0305", dlprobe_options=["--for", "11s"],
                          evidence={"exception": holds("OSError (fill, ")})
    yield from slow("barrier-with-one-at-a-server", "hang_closed.py barrier-with-one-at-a-server", "DLP0702", severity="warning",
                    verdicts=("warn",), dlprobe_options=["--for", "11s"])
    # Which process holds the readers' lock is chance, and no part of the verdict.
    for medium, code in (("queue", "DLP0106"), ("pipe", "DLP0303")):
        for late in ("trainer", "workers"):
            kind = f"{medium}-nobody-fills-{late}-late"
            yield from (pair if late == "trainer" else slow)(kind, f"hang_closed.py {kind}", code)
    a_warning = {"severity": "warning", "verdicts": ("warn",)}
    yield from pair("orphans-that-write", "hang_peer.py orphans-that-write", "DLP0309", **a_warning)
    yield from slow("orphans-that-wait", "hang_peer.py orphans-that-wait", "DLP0309", **a_warning)
    yield from slow("orphans-under-subreaper", "hang_peer.py orphans-under-subreaper", "DLP0309", **a_warning)
    for version in ("v1", "v2"):
        yield from pair(f"frozen-{version}", f"hang_peer.py frozen-{version}", "DLP0311")
    yield from pair("queue-left-under-launcher", "hang_peer.py queue-left-under-launcher", "DLP0309", **a_warning)
    yield from pair("readers-with-one-anothers-ends", "hang_peer.py readers-with-one-anothers-ends", "DLP0308")
    yield from pair("request-in-a-buffer", "hang_peer.py request-in-a-buffer", "DLP0303")
    yield from slow("pool-worker-died", "hang_peer.py pool-worker-died", ("DLP0106", "DLP0308", "DLP0510"))
    yield from slow("pool-of-fork-server", "hang_peer.py pool-of-fork-server", ("DLP0106", "DLP0308", "DLP0510"))
    yield from pair("join-before-get", "hang_peer.py join-before-get", ("DLP0303", "DLP0308", "DLP0314"))
    yield from pair("pool-that-ended", "hang_peer.py pool-that-ended", "DLP0305")
    yield from pair("readers-that-ended", "hang_peer.py readers-that-ended", "DLP0303")
    yield from pair("handler-at-exit", "hang_peer.py handler-at-exit", "DLP0303")
    # What wakes now and then helps nobody: nine seconds of looks tell that.
    beside = {"needs": "python", "dlprobe_options": ["--for", "9s"]}
    yield hangs("join-before-get-beside-a-beat", "hang_peer.py join-before-get --beat", "DLP0303", **beside)
    yield hangs("barrier-beside-a-beat", "hang_closed.py barrier-short-of-one --beat", "DLP0303", **beside)
    yield hangs("threads-beside-a-beat", "hang_threads.py task-behind-task --beat", "DLP0303", **beside)
    yield runs("threads-beside-a-beat", "hang_threads.py task-behind-task --beat --healthy", **beside)
    yield runs("join-before-get-beside-a-beat", "hang_peer.py join-before-get --beat --healthy", **beside)
    for kind in ("sleep", "read", "mutex"):
        yield from (everywhere if kind == "mutex" else slow)(f"gil-{kind}", f"hang_gil.py {kind}", "DLP0307",
                                                             **(a_warning if kind == "sleep" else {}))
    # Somebody has the other end and may write yet.
    yield from pair("fifo-that-stays-empty", "hang_slow.py fifo-that-stays-empty", "DLP0313",
                    severity=None, verdicts=("pass", "warn"))
    yield from slow("fifo-without-writer", "hang_slow.py fifo-without-writer", "DLP0308",
                    severity=None, verdicts=("pass", "warn"))
    storage = {"needs": "python", "device": "/dev/fuse"}
    for kind, option in (("does-not-answer", ""), ("is-dead", " --dead")):
        yield hangs(f"storage-{kind}", "hang_storage.py read", "DLP0310", beside=[f"slow_storage.py{option}"],
                    **storage, **a_warning)
    yield runs("storage-that-answers", "hang_storage.py read --healthy", beside=["slow_storage.py --healthy"], **storage)
    not_an_error = {"severity": None, "verdicts": ("fail", "warn", "pass")}
    yield from pair("asks-a-terminal", "hang_slow.py asks-a-terminal", "DLP0313", **not_an_error)
    yield from pair("full-queue-of-a-manager", "hang_slow.py full-queue-of-a-manager", "DLP0303",
                    evidence={"your_code": holds("parse")}, **not_an_error)
    yield from pair("output-left-open", "hang_slow.py output-left-open", "DLP0308", severity="info", verdicts=("pass",))
    yield from pair("slow-sample", "hang_slow.py slow-sample", "DLP0313", **not_an_error)
    yield from slow("slow-native-sample", "hang_slow.py slow-native-sample", ("DLP0313", "DLP0312"), **not_an_error)
    yield from pair("busy-without-end", "hang_slow.py busy-without-end", "DLP0312", **not_an_error)
    yield from pair("consumer-at-a-lock", "hang_slow.py consumer-at-a-lock", ("DLP0314", "DLP0303"))
    # A trainer that computes may be in an evaluation; nothing tells it from a loop without an end.
    yield runs("consumer-in-a-loop", "hang_slow.py consumer-in-a-loop")
    for kind in ("consumer-at-a-socket", "consumer-in-a-native-call"):
        yield from slow(kind, f"hang_slow.py {kind}", "DLP0314", **not_an_error)


IDLE_QUICK = ("idle-executor", "slow-step", "evaluation", "contended-threads", "contended-processes",
              "lock-held-by-someone-who-works", "thread-lock-held-by-a-worker-thread", "asyncio-server",
              "asyncio-sleep", "asyncio-until-signal", "threads-before-fork", "manager", "idle-pool")
IDLE_SLOW = ("busy-pool", "process-executor", "large-samples-behind-slow-step", "evaluation-in-native-code",
             "program-beside", "waits-for-input", "lock-held-by-someone-who-reads", "asyncio-trainer",
             "spawned-workers", "forkserver-workers", "openmp-in-workers", "prefetch-thread",
             "starved-consumer-thread", "joins-a-thread", "barrier", "slow-pipe", "nothing-but-sleep",
             "one-epoch-done")


WAITS_QUICK = ("log-listener", "workers-wait-for-event", "copy-of-a-held-lock", "native-lock-holder-sleeps",
               "spinning-openmp")
WAITS_SLOW = ("logging-at-fork", "main-waits-for-event", "waits-for-signal", "slow-producer", "slow-producer-process",
              "semaphore-as-signal", "lock-as-signal", "file-lock", "program-per-sample", "program-that-takes-long",
              "selector-loop", "death-pipe", "connection-in-thread")


def stood_before():
    """Jobs that stood long before dlprobe came, which looks for 3 s."""
    common = {"probe": "deadlock", "needs": "python", "pace": "slow", "no_errors": True, "dlprobe_options": ["--for", "3s"]}
    for kind, code in (("fifo-that-stays-empty", "DLP0313"), ("fifo-without-writer", "DLP0308"), ("consumer-at-a-socket", "DLP0314"),
                       ("consumer-of-a-program", "DLP0308"), ("sample-of-a-server", "DLP0313")):
        job = f"hang_slow.py {kind}"
        yield Case(f"stood-{kind}", job, attach_after_s=36, first=code, severity="warning", verdicts=("warn",), **common)
        yield Case(f"stood-{kind}-begun", job, attach_after_s=14, first=code, severity="info", verdicts=("pass",), **common)
        yield Case(f"stood-{kind}-not", f"{job} --healthy", attach_after_s=36, quiet=True, verdicts=("pass",), **common)


def idle_jobs():
    """Healthy jobs that stand still or spin, as hung ones do."""
    for script, pace, kinds in (("idle.py", "quick", IDLE_QUICK), ("idle.py", "slow", IDLE_SLOW),
                                ("long_waits.py", "quick", WAITS_QUICK), ("long_waits.py", "slow", WAITS_SLOW)):
        for kind in kinds:
            yield runs(kind, f"{script} {kind}", needs="python", pace=pace)
    # Its queue waits in another way on each Python.
    yield runs("executor-of-a-parked-server", "idle.py executor-of-a-parked-server", needs="python", pace="everywhere")


def hangs_of_ranks():
    """Ranks of a distributed job that wait for one of them."""
    slow = partial(hang_with_twin, pace="slow", dlprobe_options=["--for", "11s"])
    yield from hang_with_twin("ranks-loader-stuck", "hang_ranks.py loader-stuck", "DLP0308", also=["DLP0702"])
    yield from hang_with_twin("ranks-gathers-alone", "hang_ranks.py gathers-alone", "DLP0703", dlprobe_options=["--for", "11s"])
    yield from hang_with_twin("ranks-slowest", "hang_ranks.py slowest", "DLP0706", severity="info", verdicts=("pass",),
                              dlprobe_options=["--for", "6s"])
    yield from slow("ranks-asleep", "hang_ranks.py asleep", "DLP0702", severity="warning", verdicts=("warn",))
    yield from slow("ranks-mismatch", "hang_ranks.py mismatch", "DLP0703")
    yield from slow("ranks-messages", "hang_ranks.py messages", "DLP0703")
    yield from slow("ranks-crosswise", "hang_ranks.py crosswise", "DLP0303", also=["DLP0702"])
    yield from slow("ranks-file-lock", "hang_ranks.py file-lock", "DLP0702")
    yield from slow("ranks-asked", "hang_ranks.py asked", "DLP0308", also=["DLP0702"])
    yield from slow("ranks-uneven", "hang_ranks.py uneven", "DLP0704")
    yield from slow("ranks-missing", "hang_ranks.py missing", "DLP0705")
    for kind in ("autograd-thread", "work", "store", "unnamed"):
        yield from slow(f"ranks-{kind}", f"hang_ranks.py {kind}", "DLP0702", severity="warning", verdicts=("warn",))
    yield from slow("ranks-dumped", "hang_ranks.py dumped", "DLP0702", severity="warning", verdicts=("warn",), needs="torch2",
                    evidence={"process_group": holds("hang_ranks.py:")})
    yield from slow("ranks-polled", "hang_ranks.py polled", "DLP0702", severity="warning", verdicts=("warn",), needs="torch2",
                    confidence="certain", evidence={"process_group": holds("completed 3 and enqueued none after it")})
    yield from slow("ranks-call", "hang_ranks.py call", "DLP0702", severity="warning", verdicts=("warn",))
    yield from slow("ranks-files", "hang_ranks.py files", "DLP0314", severity="warning", verdicts=("warn",))
    # FSDP of Debian's torch 1.13 cannot be imported by its Python 3.11.
    yield from slow("ranks-sharded", "hang_ranks.py sharded", "DLP0702", severity="warning", verdicts=("warn",), needs="torch2")


def hangs_of_torch():
    """Hangs in PyTorch's DataLoader."""
    pair = hang_with_twin
    slow = partial(hang_with_twin, pace="slow")
    for where in ("init", "getitem"):
        yield from (pair if where == "getitem" else slow)(
            f"torch-reduce-{where}", f"hang_torch.py reduce-{where}", "DLP0302", confidence="certain")
        # Debian's torch 1.13 has OpenBLAS, which starts its threads again after a fork.
        yield from (pair if where == "init" else slow)(
            f"torch-multiply-{where}", f"hang_torch.py multiply-{where}", "DLP0302", needs="torch2")
    # Where the case is slow here, one without torch is quick.
    yield from slow("torch-spinning-reduce", "hang_torch.py spinning-reduce", "DLP0302")
    yield from slow("torch-native-lock", "hang_torch.py native-lock", "DLP0301", confidence="certain")
    yield from pair("torch-lock", "hang_torch.py lock", "DLP0306")
    yield from slow("torch-rlock", "hang_torch.py rlock", "DLP0306")
    yield from slow("torch-lock-later", "hang_torch.py lock-later", "DLP0306")
    yield from slow("torch-pipe-in-a-sample", "hang_torch.py pipe-in-a-sample", "DLP0308")
    yield from slow("torch-stopped", "hang_torch.py stopped", "DLP0311")
    yield from slow("torch-orphans", "hang_torch.py orphans", "DLP0309", severity="warning", verdicts=("warn",))
    yield from slow("torch-orphan-in-a-sample", "hang_torch.py orphan-in-a-sample", "DLP0309", severity="warning",
                    verdicts=("warn",))
    yield from slow("torch-fifo-without-writer", "hang_torch.py fifo-without-writer", "DLP0308",
                    severity=None, verdicts=("pass", "warn"))
    not_an_error = {"severity": None, "verdicts": ("fail", "warn", "pass")}
    yield from slow("torch-slow-sample", "hang_torch.py slow-sample", "DLP0313", **not_an_error)
    yield from slow("torch-busy-without-end", "hang_torch.py busy-without-end", ("DLP0312", "DLP0313"),
                    **not_an_error)
    yield from slow("torch-consumer-at-a-lock", "hang_torch.py consumer-at-a-lock", ("DLP0314", "DLP0303"))
    yield from slow("torch-consumer-at-a-socket", "hang_torch.py consumer-at-a-socket", "DLP0314",
                    **not_an_error)
    long_look = {"dlprobe_options": ["--for", "18s"]}
    yield from slow("torch-coroutines", "hang_torch.py coroutines", "DLP0303", evidence={"your_code": holds("ask_for_all")})
    yield hangs("torch-sampler-without-end", "hang_torch.py sampler-without-end", "DLP0315", severity="warning",
                verdicts=("warn",), **long_look)
    yield runs("torch-sampler-without-end", "hang_torch.py sampler-without-end --healthy")
    for kind in ("slow-sampler", "evaluation-without-workers"):
        yield runs(f"torch-{kind}", f"hang_torch.py {kind}", pace="slow", **long_look)
    for kind in ("idle-pools", "persistent", "backward"):
        yield runs(f"torch-{kind}", f"hang_torch.py {kind}")
    for kind in ("parked", "spawned", "of-forkserver", "two-loaders", "evaluation", "collective"):
        yield runs(f"torch-{kind}", f"hang_torch.py {kind}", pace="slow")


def hangs_of_wheels():
    """Libraries with threads of their own, in forked workers; they lie beside torch 2.13."""
    for module in ("polars", "tokenizers", "grpc"):
        yield from hang_with_twin(f"wheels-{module}", f"hang_wheels.py {module}", "DLP0302", needs="torch2",
                                  modules=(module,), pace="slow" if module == "tokenizers" else "quick")
    for kind, module in (("opencv", "cv2"), ("pyarrow", "pyarrow"), ("numba", "numba")):
        yield runs(f"wheels-{kind}", f"hang_wheels.py {kind}", needs="torch2", modules=(module,))


def risk_with_twin(name, job, first, severity="warning", **changes):
    """Nothing hangs, and one thing is worth a word; its twin has nothing that is."""
    verdict = "warn" if severity == "warning" else "pass"
    yield looked_at(f"risk-{name}", job, first=first, severity=severity, no_errors=True, verdicts=(verdict,), **changes)
    yield runs(name, f"{job} --healthy", never=[first], **changes)


def risks():
    """What does no harm yet, or none that can be seen."""
    everywhere = partial(risk_with_twin, needs="python", pace="everywhere")
    pair = partial(risk_with_twin, needs="python")
    yield from everywhere("lost-pool", "risks.py lost-pool", "DLP0604")
    # Of the looks at positions few meet one in the middle of its move.
    longer = {"dlprobe_options": ["--for", "7s"]}
    yield from pair("shared-position", "risks.py shared-position", "DLP0205", **longer)
    yield runs("position-of-trainer-alone", "risks.py trainer-alone", needs="python", never=["DLP0205"])
    yield from pair("two-runtimes", "risks.py two-runtimes", "DLP0605", severity="info")
    yield from risk_with_twin("torch-lost-pool", "hang_torch.py lost-pool-unused", "DLP0604", pace="slow")
    yield from risk_with_twin("torch-shared-position", "hang_torch.py shared-position", "DLP0205", pace="slow", **longer)


def shared_handles():
    """Commands that end well within seconds, and read wrong data: nothing else says so."""
    for kind in ("records", "pool", "archive"):
        job = f"shared_handles.py {kind}"
        pace = "everywhere" if kind == "records" else "quick"
        yield Case(f"run-shared-{kind}", job, probe="run", needs="python", pace=pace, first="DLP0205", severity="warning",
                   confidence="likely", no_errors=True, verdicts=("warn",), exit_codes=(0,))
        yield ends_well(f"shared-{kind}-not", f"{job} --healthy", pace="quick")
    yield Case("run-shared-connection", "shared_handles.py connection", probe="run", needs="python", pace="quick",
               first="DLP0205", severity="error", confidence="certain", verdicts=("fail",), exit_codes=(0,))
    # An error where a look from outside meets two that read at once; else the workers say so.
    yield Case("run-shared-reader-connection", "shared_reader.py connection", probe="run", needs="torch", pace="quick", first="DLP0205",
               evidence={"reads_at": holds("at shared_reader.py:")}, verdicts=("warn", "fail"), exit_codes=(0,))
    for job in ("lines", "records"):  # over before anybody looks twice
        yield Case(f"run-shared-reader-{job}", f"shared_reader.py {job}", probe="run", needs="torch", pace="quick", first="DLP0205",
                   severity="warning", confidence="likely", verdicts=("warn",), exit_codes=(0,))
    yield from each("ends-shared-reader", "shared_reader.py",
                    ("at-offset", "reopened", "lazy", "one-reads", "logs", "trainer-reads", "records --workers 1", "connection-lazy",
                     "connection-locked", "connection --workers 1"), pace="slow", **NOTHING)
    for by in ("pool", "executor", "processes"):
        yield Case(f"run-shared-tasks-{by}", f"shared_tasks.py shared --by {by}", probe="run", needs="python", pace="quick",
                   first="DLP0205", severity="warning", confidence="likely", verdicts=("warn",), exit_codes=(0,))
    for job in ("locked", "at-offset", "own --by executor", "locked --by processes"):
        yield ends_well(f"shared-tasks-{job.replace(' --', '-').replace(' ', '-')}", f"shared_tasks.py {job}", pace="quick")
    yield ends_well("shared-connection-not", "shared_handles.py connection --healthy", pace="quick")
    for kind in ("mapping", "locked"):
        yield ends_well(f"shared-{kind}", f"shared_handles.py {kind}", pace="quick")
    yield Case("fd-shared-records", "shared_handles.py records", probe="fd", needs="python", first="DLP0205",
               no_errors=True, verdicts=("warn",))
    yield Case("run-torch-shared-position", "hang_torch.py shared-position", probe="run", leaves_job=True, first="DLP0205",
               dlprobe_options=["--for", "10s"], no_errors=True, verdicts=("warn",))


SIGTERM = 128 + 15


def watched_to_the_end():
    """Jobs under `dlprobe run`, which says nothing until something is wrong."""
    kills = ["--hang-after", "3s", "--on-hang", "kill"]
    yield Case("run-torch-hangs", "hang_torch.py reduce-getitem", probe="run", dlprobe_options=kills, first="DLP0302",
               severity="error", exit_codes=(SIGTERM,))
    yield Case("run-hangs", "hang_closed.py full-queue-without-consumer", probe="run", needs="python",
               dlprobe_options=kills, first="DLP0510", also=["DLP0303"], severity="error", exit_codes=(SIGTERM,))
    # No worker reads or writes for much longer than --hang-after, and nothing is stuck.
    for job in ("long_step", "slow_sample"):
        yield Case(f"run-torch-{job.replace('_', '-')}", f"healthy.py --job {job}", probe="run", pace="slow",
                   dlprobe_options=kills, quiet=True, verdicts=("pass",), exit_codes=(0,))
    spins = {"probe": "run", "needs": "python", "pace": "slow"}
    yield Case("run-loop-since-a-failure", "spinning_consumer.py", dlprobe_options=["--hang-after", "10s", "--on-hang", "kill"],
               first="DLP0510", also=["DLP0312"], severity="warning", verdicts=("warn",), **spins)
    yield Case("run-work-since-a-failure", "spinning_consumer.py --healthy", first="DLP0510", never=["DLP0312"],
               dlprobe_options=["--hang-after", "10s"], verdicts=("pass", "warn"), **spins)
    yield Case("run-torch-healthy", "healthy.py", probe="run", silent=True, verdicts=("pass",), exit_codes=(0,))


def dies(name, job, first, **changes):
    """A job under `dlprobe run` of which a process ends, and why. Its twin ends well."""
    arguments = {"probe": "run", "needs": "python", "first": first, "severity": "error", "confidence": "certain",
                 "never": ["DLP0102"]}
    return Case(f"dies-{name}", job, **(arguments | changes))


def ends_well(name, job, **changes):
    arguments = {"probe": "run", "needs": "python", "pace": "slow", "silent": True, "verdicts": ("pass",),
                 "exit_codes": (0,)}
    return Case(f"ends-{name}", job, **(arguments | changes))


ENDS_OF_WORKERS = (  # kind, code, evidence, changes
    ("segfault", "DLP0509", {"exit_signal": holds("SIGSEGV"), "crashed_at": holds("/deaths_common.py:")}, {}),
    ("overflow", "DLP0509", {"stack_limit": between(MIB, 1 << 62), "crashed_at": holds("/deaths_common.py:")}, {}),
    ("tied", "DLP0503", {"exit_signal": holds("SIGKILL")}, {"confidence": "likely"}),
    ("timer", "DLP0503", {"exit_signal": holds("SIGALRM"), "set_at": holds("/deaths_common.py:")}, {"confidence": "likely"}),
    ("abort", "DLP0509", {"exit_signal": holds("SIGABRT")}, {}),
    ("divide", "DLP0509", {"exit_signal": holds("SIGFPE")}, {}),
    ("illegal", "DLP0509", {"exit_signal": holds("SIGILL")}, {}),
    # Its trainer raises an error of its own: it might have lived with the worker's end.
    ("os-exit", "DLP0510", {"exit_code": equals("3")}, {"confidence": "likely"}),
    ("sys-exit", "DLP0510", {"exit_code": equals("3")}, {"confidence": "likely"}),
    ("sys-exit-0", ("DLP0510", "DLP0514"), {}, {"confidence": None}),
    ("truncated", "DLP0512", {"signal_code": holds("2:")}, {"confidence": None}),
    ("killed", "DLP0503", {"sender": holds("killer.py")}, {"beside": ["killer.py SIGKILL"]}),
    ("terminated", "DLP0503", {"sender": holds("killer.py")}, {"beside": ["killer.py SIGTERM"]}),
    ("hung-up", "DLP0503", {"sender": holds("killer.py")}, {"beside": ["killer.py SIGHUP"]}),
)


def deaths():
    """How processes of a job come to their ends, without torch."""
    for kind, code, evidence, changes in ENDS_OF_WORKERS:
        pace = "quick" if kind in ("killed", "segfault") else "slow"
        yield dies(kind, f"deaths.py {kind}", code, evidence=evidence, exit_codes=(1,), pace=pace, **changes)
    yield dies("exception", "deaths.py exception", "DLP0510", evidence={"exit_code": equals("1")}, exit_codes=(1,), pace="slow",
               confidence="likely")
    yield dies("memory-error", "deaths.py memory-error", "DLP0508", exit_codes=(1,), pace="slow", never=["DLP0510"],
               evidence={"exception": equals("MemoryError"), "raised_at": holds("/deaths_common.py:")})
    for kind in ("cpu-limit", "cpu-limit-hard"):
        yield dies(kind, f"deaths.py {kind}", "DLP0503", evidence={"cpu_time_limit": equals(1)}, exit_codes=(1,),
                   pace="slow")
    oom = {"limited_cgroup": holds("dlprobe-corpus"), "memory_limit": equals(120 * MIB)}
    yield dies("oom-worker", "deaths.py oom-worker", "DLP0501", evidence=oom, exit_codes=(9,))
    yield dies("oom-trainer", "deaths.py oom-trainer", "DLP0501", evidence=oom, exit_codes=(137,), pace="slow")
    yield dies("whole-job-stopped", "deaths.py whole-job-stopped", "DLP0503", beside=["killer.py SIGTERM"], pace="slow",
               evidence={"sender": holds("killer.py")}, exit_codes=(128 + 15,))
    yield dies("trainer-killed", "deaths.py trainer-killed", "DLP0503", beside=["killer.py SIGKILL"], pace="slow",
               evidence={"sender": holds("killer.py")}, exit_codes=(128 + 9,))
    yield dies("closed-session", "deaths.py closed-session", "DLP0511", exit_codes=(1,))
    for kind in ("segfault", "tied", "oom-worker", "whole-job-stopped", "closed-session", "trainer-killed"):
        yield ends_well(f"{kind}-not", f"deaths.py {kind} --healthy", pace="slow" if kind in ("tied", "trainer-killed") else "quick")
    for kind in ("pool", "failing-programs", "killed-by-trainer", "caught"):
        yield ends_well(kind, f"deaths.py {kind}", pace="quick" if kind == "killed-by-trainer" else "slow")
    yield dies("worker-of-exec-pool", "exec_pool.py", "DLP0509", exit_codes=(1,), never=["DLP0514", "DLP0503"],
               evidence={"crashed_at": holds("/exec_pool.py:")})
    yield ends_well("worker-of-exec-pool-not", "exec_pool.py --healthy")
    yield dies("child-of-copied-package", "copied_package.py", "DLP0509", exit_codes=(1,), evidence={"crashed_at": holds("/copied_package.py:")})
    yield ends_well("child-of-copied-package-not", "copied_package.py --healthy")
    numba = {"needs": "torch2", "modules": ("numba",)}
    yield dies("numba-forked", "numba_fork.py", "DLP0509", confidence="likely", exit_codes=(1,), evidence={"code": holds("omppool")}, **numba)
    yield ends_well("numba-forked-not", "numba_fork.py --healthy", **numba)
    mpi = {"needs": "torch1", "modules": ("mpi4py",)}
    yield dies("rank-left", "mpi_ranks.py", "DLP0704", confidence="likely", exit_codes=(1,), never=["DLP0503"], **mpi)
    yield ends_well("rank-left-not", "mpi_ranks.py --healthy", **mpi)
    yield dies("rank-abort", "mpi_ranks.py --abort", "DLP0510", confidence="likely", exit_codes=(7,),
               evidence={"victim": holds("rank 1 (")}, **mpi)
    for kind, code, evidence in (("aborts", "DLP0509", {"called_at": holds("/failed_ranks.py:")}),
                                 ("exits", ("DLP0509", "DLP0510"), {"called_at": holds("/failed_ranks.py:")}),
                                 ("gather", "DLP0509", {"victim": holds("rank 1 (")}),
                                 ("late", "DLP0702", {"your_code": holds("save")}),
                                 ("monitored", "DLP0702", {"your_code": holds("save"), "collective": holds("monitored_barrier")}),
                                 ("taken", "DLP0514", {"port": holds("")}),
                                 ("twice", "DLP0705", {"address": holds("127.0.0.1:")}),
                                 ("absent", "DLP0705", {"missing_ranks": equals(1)}),
                                 ("left", "DLP0705", {"victim": holds("rank 2 (")})):
        certainty = {"absent": "likely", "left": "likely", "exits": None}.get(kind, "certain")
        yield dies(f"rank-{kind}", f"failed_ranks.py {kind}", code, needs="torch", confidence=certainty, exit_codes=(1,),
                   evidence=evidence)
        yield ends_well(f"rank-{kind}-not", f"failed_ranks.py {kind} --healthy", needs="torch",
                        pace="quick" if kind in ("late", "taken", "left") else "slow")
    yield ends_well("child-fails", "deaths.py child-fails")
    yield ends_well("interrupted", "deaths.py interrupted")


RAISED = {  # how a job fails -> code, what the proof says of it
    "worker": ("DLP0514", {"exception": holds("KeyError"), "raised_at": holds("/raised_torch.py:")}),
    "task": ("DLP0514", {"exception": holds("ZeroDivisionError"), "raised_at": holds("/raised.py:17")}),
    "executor-task": ("DLP0514", {"exception": holds("ZeroDivisionError"), "raised_at": holds("/raised.py:17")}),
    "initializer": ("DLP0514", {"exception": holds("FileNotFoundError"), "raised_at": holds("/raised.py:21")}),
    "initializer-exits": ("DLP0514", {"exception": holds("SystemExit")}),
    "native-exit": ("DLP0510", {"exit_code": equals("1")}),
    "handled-exit": ("DLP0510", {"called_at": holds("/raised.py:"), "raised_from": holds("ZeroDivisionError")}),
    "words": ("DLP0514", {"exception": holds("ZeroDivisionError"), "raised_at": holds("/raised.py:17")}),
    "callback": ("DLP0514", {"exception": holds("KeyError"), "raised_at": holds("/raised.py:")}),
    "trainer": ("DLP0514", {"exception": holds("ZeroDivisionError"), "raised_at": holds("/raised.py:17")}),
    "no-descriptor": ("DLP0202", {"exception": holds("OSError"), "limit": equals(40), "raised_at": holds("/raised.py:28")}),
    "no-descriptor-hidden": ("DLP0202", {"exception": holds("RuntimeError"), "limit": equals(40)}),
    "socket": ("DLP0514", {"file": holds("/listener-"), "raised_at": holds("/raised.py:")}),
    "result": ("DLP0402", {"type": equals("lambda")}),
    "not-rebuilt": ("DLP0402", {"exception": holds("TypeError")}),
    "spawned": ("DLP0510", {"exception": holds("ZeroDivisionError"), "raised_at": holds("/raised.py:17")}),
    "pool-lacks": ("DLP0407", {"exception": holds("below_the_guard"), "main_module": holds("/raised.py")}),
    "served-pool-lacks": ("DLP0407", {"exception": holds("below_the_guard"), "main_module": holds("/raised.py")}),
    "executor-lacks": ("DLP0407", {"exception": holds("below_the_guard"), "main_module": holds("/raised.py")}),
    "lock-of-fork": ("DLP0402", {"type": equals("Synchronized"), "path": equals("value"), "statement": holds("/raised.py:")}),
    "lock-in-task": ("DLP0402", {"type": equals("Synchronized")}),
    "freed-lock": ("DLP0510", {"exception": holds("FileNotFoundError"), "exit_code": equals("1")}),
    "closed": ("DLP0514", {"exception": holds("RuntimeError"), "raised_at": holds("/raised.py:")}),
    "locked": ("DLP0514", {"locked_by": holds("process "), "file": holds("/locked-"), "raised_at": holds("/raised.py:")}),
    "removed-block": ("DLP0514", {"removed_by": holds("python"), "raised_at": holds("/raised.py:")}),
}


def raised():
    """Jobs that an exception ends: dlprobe's witness names the one that was raised first, and its line."""
    for kind, (code, evidence) in RAISED.items():
        job, needs = (f"raised.py {kind}", "python") if kind != "worker" else ("raised_torch.py", "torch")
        common = {"probe": "run", "needs": needs}
        confidence = "likely" if kind in ("native-exit", "words", "callback") else "certain"
        yield Case(f"raised-{kind}", job, first=code, severity="error", confidence=confidence, evidence=evidence,
                   exit_codes=(1,), pace="everywhere" if kind in ("task", "spawned", "executor-lacks", "lock-of-fork", "removed-block") else "quick", **common)
        yield Case(f"raised-{kind}-not", f"{job} --healthy", silent=True, verdicts=("pass",), exit_codes=(0,), **common)
    yield Case("raised-left-task", "raised.py left-task", probe="run", needs="python", first="DLP0510", severity="warning", verdicts=("warn",),
               exit_codes=(0,), evidence={"called_at": holds("/raised.py:")}, pace="quick")
    yield ends_well("raised-left-task-not", "raised.py left-task --healthy", pace="quick")


def timed_out():
    """A loader with a timeout gives up, and the worker that it waited for is named."""
    common = {"probe": "run", "needs": "torch"}
    yield Case("raised-timeout", "raised_torch.py --slow", first="DLP0313", severity="error", exit_codes=(1,),
               evidence={"your_code": holds("Remote.__getitem__"), "exception": holds("RuntimeError")}, **common)
    yield Case("raised-timeout-short", "raised_torch.py --slow --timeout 4", first="DLP0313", severity="error", exit_codes=(1,),
               evidence={"your_code": holds("Remote.__getitem__"), "exception": holds("RuntimeError")}, **common)
    for kind, evidence in (("gone", {"exception": holds("Error")}), ("memory", {"called_at": holds("/raised_torch.py:")}),
                           ("unlike", {"samples": holds("sample 20: [3]; sample 21: [4]")})):
        yield Case(f"raised-{kind}", f"raised_torch.py --{kind}", first="DLP0514", severity="error", exit_codes=(1,),
                   evidence=evidence, **common)
        yield Case(f"raised-{kind}-not", f"raised_torch.py --{kind} --healthy", silent=True, verdicts=("pass",), exit_codes=(0,),
                   **common)
    yield Case("raised-timeout-not", "raised_torch.py --slow --healthy", silent=True, verdicts=("pass",), exit_codes=(0,),
               **common)


def fails_in_vain():
    """A pool that starts its workers again and again is ended as one that hangs."""
    common = {"probe": "run", "needs": "python", "dlprobe_options": ["--hang-after", "5s", "--on-hang", "kill"]}
    yield Case("vain-executor", "vain_pool.py --executor", first="DLP0510", severity="error", exit_codes=(143,),
               evidence={"called_at": holds("/vain_pool.py:26")}, **common)
    yield Case("vain-executor-not", "vain_pool.py --executor --healthy", no_errors=True, verdicts=("pass", "warn"),
               exit_codes=(0,), **common)
    yield Case("vain-pool", "vain_pool.py", first="DLP0514", severity="error", exit_codes=(143,), never=["DLP0510"],
               evidence={"exception": holds("FileNotFoundError"), "raised_at": holds("/vain_pool.py:15")}, **common)
    yield Case("vain-executor-recycled", "vain_pool.py --recycled", first="DLP0106", severity="error", exit_codes=(143,), never=["DLP0314"],
               evidence={"your_code": holds("recycle_workers")}, **common)
    yield Case("vain-executor-recycled-not", "vain_pool.py --recycled --healthy", silent=True, verdicts=("pass",), exit_codes=(0,),
               pace="slow", **common)
    yield Case("vain-pool-not", "vain_pool.py --healthy", no_errors=True, verdicts=("pass", "warn"), exit_codes=(0,), **common)


HANDLED = {"run": ("DLP0514", "ZeroDivisionError"), "start": ("DLP0402", "ickl"), "fork": ("DLP0510", "ValueError")}


def handled():
    """Children that fail as their parent expects, and those that it fails of."""
    common = {"probe": "run", "needs": "python"}
    for kind, (code, exception) in HANDLED.items():
        yield Case(f"handled-{kind}", f"handled.py {kind}", silent=True, verdicts=("pass",), exit_codes=(0,), **common)
        yield Case(f"handled-{kind}-not", f"handled.py {kind} --passes-on", first=code, severity="error",
                   evidence={"exception": holds(exception)}, exit_codes=(1,), **common)
    yield Case("handled-crash", "handled.py crash", quiet=True, verdicts=("pass",), exit_codes=(0,), **common)
    yield Case("handled-many", "handled.py many", silent=True, verdicts=("pass",), exit_codes=(0,), **common)
    yield Case("handled-process", "handled.py process", quiet=True, verdicts=("pass",), exit_codes=(0,), **common)
    yield Case("handled-process-unread", "handled.py process --unread", first="DLP0514", severity="warning", verdicts=("warn",),
               evidence={"exception": holds("RuntimeError")}, exit_codes=(0,), **common)
    yield Case("handled-crash-not", "handled.py crash --passes-on", first="DLP0509", severity="error", exit_codes=(1,), **common)


FULL = (  # what starts too much -> whose limit, what the proof names
    ("fork", "--in-group 8", {"refusals": between(1, 1), "limit": equals(8), "raised_at": holds("/limits.py:25")}),
    ("fork", "--as-user 8", {"limit": equals(8), "raised_at": holds("/limits.py:25")}),
    ("spawn", "--in-group 8", {"refusals": between(1, 9), "raised_at": holds("/limits.py:25")}),
    ("threads", "--in-group 8", {"refusals": between(1, 9), "raised_at": holds("/limits.py:30")}),
    ("threads", "--as-user 8", {"limit": equals(8), "raised_at": holds("/limits.py:30")}),
    ("executor", "--in-group 8", {"refusals": between(1, 9), "raised_at": holds("/limits.py:35")}),
    ("bare-fork", "--as-user 8", {"limit": equals(8), "raised_at": holds("/limits.py:40")}),
    ("programs", "--in-group 8", {"refusals": between(1, 9), "raised_at": holds("/limits.py:48")}),
    ("zombies", "--in-group 30", {"refusals": between(1, 9), "raised_at": holds("/limits.py:65")}),
    ("threads-of-worker", "--in-group 10", {"refusals": between(1, 99), "raised_at": holds("/limits.py:30")}),
)


NO_SPACE = (  # what has none -> code, what the proof says, /dev/shm
    ("temporary", "DLP0608", {"file": holds("/tmp"), "raised_at": holds("/space.py:25")}, "size=64m"),
    ("temporary-of-worker", "DLP0608", {"raised_at": holds("/space.py:25")}, "size=64m"),
    ("temporary-files", "DLP0608", {"exception": holds("Errno 28"), "raised_at": holds("/space.py:41")}, "size=64m"),
    ("shm-file", "DLP0102", {"shm_size": equals(64 * MIB), "raised_at": holds("/space.py:47")}, "size=64m"),
    ("semaphores", "DLP0108", {"inodes": equals(20), "inodes_used": equals(20)}, "size=64m,nr_inodes=20"),
    ("address-space", "DLP0508", {"exception": equals("MemoryError"), "raised_at": holds("/space.py:63")}, "size=64m"),
)


def full():
    """Jobs that reach a limit."""
    common = {"probe": "run", "needs": "python"}
    for job, code, evidence, mount_options in NO_SPACE:
        yield Case(f"run-no-space-{job}", f"space.py {job}", first=code, severity="error", confidence="certain", evidence=evidence,
                   exit_codes=(1,), never=["DLP0510", "DLP0514"], mount_options=mount_options, **common)
        for done_without in ("--healthy", "--handled"):
            yield Case(f"run-no-space-{job}-not{done_without[1:]}", f"space.py {job} {done_without}", quiet=True,
                       verdicts=("pass",), exit_codes=(0,), pace="quick" if done_without == "--healthy" else "slow",
                       mount_options=mount_options, **common)
    for job, where, evidence in FULL:
        name = f"run-full-{job}-{where.split('-')[3].split()[0]}"
        yield Case(name, f"limits.py {job} {where}", first="DLP0603", severity="error", confidence="certain", evidence=evidence,
                   exit_codes=(1,), never=["DLP0510", "DLP0514"], **common)
        for done_without in ("--healthy", "--handled"):
            yield Case(f"{name}-not{done_without[1:]}", f"limits.py {job} {where} {done_without}", silent=True, verdicts=("pass",),
                       exit_codes=(0,), pace="quick" if (job, done_without) == ("fork", "--healthy") else "slow", **common)


def refused_forks():
    """Where the kernel grants no more than it has, which a test does not set for a whole machine."""
    strict = {"probe": "run", "needs": "python", "pace": "slow", "sysctl": ("vm/overcommit_memory", "2")}
    yield Case("run-fork-refused", "overcommit.py", first="DLP0513", severity="error", confidence="likely", exit_codes=(1,),
               evidence={"printed": holds("Cannot allocate memory")}, **strict)
    yield Case("run-spawn-not-refused", "overcommit.py --healthy", silent=True, verdicts=("pass",), exit_codes=(0,), **strict)


def epoch_ends():
    """PyTorch waits 5 s for the end of each spawned worker whose torch_shm_manager lives on; under fork it does not."""
    epoch = "healthy.py --strategy file_system --batches 4 --start-method"
    yield Case("run-torch-epoch-ends-late", f"{epoch} spawn", probe="run", first="DLP0111", severity="warning",
               confidence="certain", verdicts=("warn",), exit_codes=(0,),
               evidence={"time_at_a_standstill": between(4, 11), "processes": equals(2)})
    yield Case("run-torch-epoch-ends-in-time", f"{epoch} fork", probe="run", silent=True, verdicts=("pass",), exit_codes=(0,))


SAME_DATA = (  # what workers do alike -> code, what the proof says
    ("copied", "DLP0801", {"generator": equals("dataset.transform.draw.args[0].rng"), "processes": equals(2)}),
    ("copied --kind state", "DLP0801", {"samples_made_at": holds("/same_data.py:")}),
    ("copied --kind python --method spawn", "DLP0801", {"generator": holds(".rng")}),
    ("copied --kind torch --workers 3", "DLP0801", {"processes": equals(3)}),
    ("copied-in-closure", "DLP0801", {"generator": equals("map_style.<locals>.<lambda>.<locals>.rng")}),
    ("module", "DLP0801", {"generator": equals("MODULE_RNG")}),
    ("seeded-alike", "DLP0801", {"generator": holds("random")}),
    ("stream", "DLP0802", {"equal_samples": equals(48), "samples_made_at": holds("/same_data.py:")}),
    ("stream --batch-size 1 --method forkserver", "DLP0802", {"equal_samples": equals(48)}),
    ("stream-looks-ahead", "DLP0802", {"equal_samples": equals(10)}),
    ("stream-shuffled-apart", "DLP0802", {"processes": equals(2)}),
    ("stream-endless", "DLP0802", {"processes": equals(2)}),
    ("stream-hashed --method spawn", "DLP0802", {"samples_made_at": holds("/same_data.py:")}),
)
SAME_DRAWS = (  # of processes that are no workers of a DataLoader -> what the proof says
    ("module", {"generator": equals("RNG"), "samples_made_at": holds("/same_draws.py:")}),
    ("module --pool", {"generator": equals("RNG"), "processes": equals(2)}),
    ("module --method spawn", {"generator": equals("RNG")}),
    ("global", {"generator": equals("numpy.random")}),
    ("global --pool", {"generator": equals("numpy.random")}),
    ("results --pool", {"generator": equals("numpy.random"), "processes": equals(2)}),
)
DRAWS_APART = ("own", "by-item", "by-item --pool", "seeded --pool", "results", "ordered", "one-by-one")
DATA_APART = ("copied --workers 1", "global", "seeded-apart", "lazy", "lazy-state", "by-sample", "permuted", "in-trainer",
              "stream-constant", "stream-shuffled", "stream-sliced", "stream-header", "stream --workers 1",
              "stream-hashed", "stream-checksummed --method spawn", "stream-of-one-file", "stream-of-labels", "stream-endless-shuffled")


OVERWRITTEN = ("buffer", "buffer --method spawn", "buffer --workers 1", "part --method forkserver", "shared", "collate",
               "collate --method spawn")
NOT_OVERWRITTEN = ("clone", "clone --method spawn", "clone-shared", "constant", "table", "cache", "cache --method spawn", "ring",
                   "array", "buffer --workers 0")


LIKELY = {"severity": "warning", "confidence": "likely", "verdicts": ("warn",)}
CERTAIN = {"severity": "error", "confidence": "certain"}
NOTHING = {"silent": True, "verdicts": ("pass",)}


def each(name, script, jobs, **changes):
    """Commands that end well, whatever their data is."""
    arguments = {"probe": "run", "needs": "torch", "exit_codes": (0,)} | changes
    for job in jobs:
        yield Case(f"{name}-{job.replace(' --method', '').replace(' --', '-').replace(' ', '-')}", f"{script} {job}", **arguments)


def same_data():
    """Samples and random numbers that workers repeat, of which no failure tells."""
    for job, code, evidence in SAME_DATA:
        yield from each("data", "same_data.py", (job,), first=code, evidence=evidence, **LIKELY)
    yield from each("data-not", "same_data.py", DATA_APART, **NOTHING)
    plain = {"needs": "python", "modules": ("numpy",)}
    for job, evidence in SAME_DRAWS:
        yield from each("data-draws", "same_draws.py", (job,), first="DLP0801", evidence=evidence, **LIKELY, **plain)
    yield from each("data-draws-not", "same_draws.py", DRAWS_APART, **NOTHING, **plain)
    yield from each("data-ranks", "same_ranks.py", [*(f"alike --workers {workers}" for workers in range(3)), "by-hand"], first="DLP0802",
                    evidence={"processes": equals(2)}, **LIKELY)
    yield from each("data-ranks", "same_ranks.py", ("in-order-learned", "stream", "stream --workers 0", "shuffled-learned --method spawn",
                                                    "stream --method forkserver"),
                    first="DLP0802", evidence={"equal_samples": equals(16)}, **LIKELY)
    yield from each("data-ranks-not", "same_ranks.py",
                    ("seeds", "groups", "parts", "evaluated", "in-order", "shared-out", "stream-shared-out", "stream-skipped",
                     "stream-evaluated", "norms", "parts --method spawn", "shared-out --method spawn", "evaluated --method spawn"), **NOTHING)
    written = "data-overwritten", "data-not-overwritten"
    yield from each(written[0], "overwritten.py", OVERWRITTEN, first="DLP0803", evidence={"samples_made_at": holds("/overwritten.py:")},
                    **CERTAIN)
    yield from each(written[1], "overwritten.py", NOT_OVERWRITTEN, **NOTHING)
    yield from each(f"{written[0]}-in-queue", "overwritten_queue.py", ("same", "same --method spawn"), first="DLP0803",
                    evidence={"samples_made_at": holds("/overwritten_queue.py:")}, **CERTAIN)
    yield from each(f"{written[1]}-in-queue", "overwritten_queue.py", ("copied", "copied --method spawn", "fresh", "ring"), **NOTHING)


SAME_EPOCHS = (  # what is the same in each -> what the proof says
    ("unset-epoch", {"sampler": equals("DistributedSampler")}),
    ("unset-epoch --workers 2 --persistent --without-model", {"epochs": equals(3), "loader_made_at": holds("/same_epochs.py:")}),
    ("made-anew", {"sampler": equals("RandomSampler"), "epochs": equals(2)}),
    ("made-anew --workers 2 --without-model", {"epochs": equals(3)}),
    ("seeded-again --workers 2", {"sampler": equals("RandomSampler")}),
    ("subset", {"sampler": equals("SubsetRandomSampler")}),
    ("weighted", {"sampler": equals("WeightedRandomSampler")}),
    ("global-seed", {"sampler": equals("RandomSampler")}),
    ("seeded-workers --workers 2", {"generator": equals("numpy.random")}),
    ("seeded-workers --workers 2 --method spawn --without-model", {"epochs": equals(3)}),
    ("buffered --workers 2", {"generator": equals("random.Random"), "epochs": equals(2)}),
    ("copied --workers 1", {"generator": equals("dataset.rng"), "samples_made_at": holds("/same_epochs.py:")}),
    ("left --workers 2", {"epochs": equals(20), "batches": equals(20)}),
)
EPOCHS_APART = ("set-epoch", "made-anew-apart", "goes-on --workers 2", "seeded-apart --workers 2", "buffered-apart --workers 2",
                "copied --workers 1 --persistent", "in-order", "evaluated", "attacked", "evaluated --workers 2 --persistent", "evaluated-in-guard --workers 1", "statistics",
                "runs", "clients", "one-batch", "pairs", "pairs --workers 2", "left --workers 2 --persistent", "begun-in-handler --workers 1")


def same_epochs():
    """Epochs that repeat their order or their random numbers, of which no failure tells."""
    for job, evidence in SAME_EPOCHS:
        yield from each("data-epochs", "same_epochs.py", (job,), first="DLP0804", evidence=evidence, **LIKELY)
    yield from each("data-epochs-not", "same_epochs.py", EPOCHS_APART, **NOTHING)


KEPT_SETTINGS = (  # what the trainer sets -> the proof
    ("epoch", "dataset.epoch"), ("epoch --method spawn", "dataset.epoch"), ("wrapped", "dataset.dataset.epoch"),
    ("transform", "dataset.scale.factor"), ("names", "dataset.names"), ("global", "LEVEL"), ("stream", "dataset.epoch"))


def kept_settings():
    """What a trainer sets, and workers that live on never get."""
    for job, setting in KEPT_SETTINGS:
        yield from each("data-settings", "kept_settings.py", (job,), first="DLP0804", evidence={"setting": equals(setting)}, **LIKELY)
    yield from each("data-settings-not", "kept_settings.py", ("new-workers", "shared", "peek", "unread", "counts", "errors"), **NOTHING)


def rewritten():
    """Tensors that their process overwrites before another one has used them."""
    yield from each("data-rewritten", "rewritten.py", ("same", "ring", "ring --method spawn", "same --strategy file_system", "pool"),
                    first="DLP0803", **LIKELY)
    yield from each("data-rewritten-not", "rewritten.py", ("lockstep", "ring-in-turn", "clone", "fresh", "pool-copies", "pool-one-by-one",
                                                           "lockstep --strategy file_system"), **NOTHING)


def lost_data():
    """What workers overwrite, or never write."""
    plain = {"needs": "python"}
    yield from each("data-lost", "lost_data.py", ("one-file",), first="DLP0805", evidence={"file": holds("/one")},
                    modules=("importlib.metadata",), **LIKELY, **plain)  # CPython 3.8, which has audit hooks
    yield from each("data-lost", "lost_data.py", ("rows",), first="DLP0805", evidence={"file": holds("/rows")}, **LIKELY | {"confidence": "certain"}, **plain)
    yield from each("data-lost-not", "lost_data.py", ("one-file-locked", "own-file", "one-index", "rows-flushed"), **NOTHING, **plain)
    yield from each("data-changed", "changed_data.py", ("shared", "array", "mapped", "cached"), first="DLP0805", **LIKELY)
    yield from each("data-changed-not", "changed_data.py", ("filled", "not-in-place", "own-copy", "mapped-private"), **NOTHING)


def partial_data():
    """Data of which a part never comes."""
    for jobs, first, evidence in ((("caught", "caught --method spawn"), "DLP0514", {"raised_at": holds("/partial_data.py:14")}),
                                  (("generator",), "DLP0804", {"sampler": equals("in_tens")}),
                                  (("mostly-none",), "DLP0607", {"samples_made_at": holds("/partial_data.py:")})):
        yield from each("data-partial", "partial_data.py", jobs, first=first, evidence=evidence, **LIKELY)
    yield from each("data-partial-not", "partial_data.py", ("caught-in-worker", "goes-on", "given-up", "class", "generator-once",
                                                            "rarely-none"), **NOTHING)


UNASKED = ("apply", "map-async", "threads-apply", "submit", "executor-map", "threads-submit")
ASKED = ("get", "map", "one-by-one", "error-callback", "successful", "early-break", "result", "exception", "done-callback", "asyncio", "list-map", "list-map-of-many")


def unasked():
    """Tasks of pools and executors that fail in silence."""
    yield from each("unasked", "unasked.py", UNASKED, needs="python", first="DLP0514",
                    evidence={"exception": holds("ValueError"), "raised_at": holds("/unasked.py:16")}, **LIKELY)
    yield from each("unasked-not", "unasked.py", ASKED, needs="python", **NOTHING)


def deaths_of_torch():
    """The same in PyTorch's DataLoader."""
    for kind, code, evidence, changes in ENDS_OF_WORKERS:
        if kind in ("illegal", "tied"):
            continue
        pace = "quick" if kind == "segfault" else "slow"
        yield dies(f"torch-{kind}", f"deaths_torch.py {kind}", code, evidence=evidence, exit_codes=(1,), pace=pace,
                   needs="torch", **changes)
    yield dies("torch-oom-worker", "deaths_torch.py fill --group-mib=450", "DLP0501", needs="torch", pace="slow",
               evidence={"limited_cgroup": holds("dlprobe-corpus")}, exit_codes=(1,))
    yield ends_well("torch-not", "deaths_torch.py segfault --healthy", needs="torch")
    # PyTorch hands a worker's exception to the trainer, which raises it again.
    for kind, code in (("exception", "DLP0514"), ("memory-error", "DLP0508")):
        yield dies(f"torch-{kind}", f"deaths_torch.py {kind}", code, needs="torch", exit_codes=(1,), pace="slow",
                   evidence={"raised_at": holds("/deaths_common.py:")})


def grows(name, job, first, **changes):
    """A command whose memory grows, under `dlprobe memory`."""
    arguments = {"probe": "memory", "needs": "python", "pace": "slow", "first": first, "verdicts": ("warn", "fail")}
    return Case(f"memory-{name}", job, **(arguments | changes))


def keeps(name, job, **changes):
    """A healthy twin: nothing is said of it."""
    arguments = {"probe": "memory", "needs": "python", "pace": "slow", "quiet": True, "verdicts": ("pass",)}
    return Case(f"memory-{name}", job, **(arguments | changes))


def memory_cases():
    """Memory that grows, and memory that looks as if it did."""
    copied = {"copied": between(40 * MIB, 400 * MIB), "growth_of_resident_anonymous_memory": between(0, 64 * MIB)}
    quick = {"pace": "quick"}
    certain = {"confidence": "certain", "evidence": copied}
    yield grows("list-dataset", "memory.py list-dataset --seconds 5", "DLP0504", **quick, **certain)
    yield keeps("block-dataset", "memory.py list-dataset --seconds 5 --healthy", **quick)
    yield grows("torch-list-dataset", "memory_torch.py list --seconds 6", "DLP0504", needs="torch", **certain)
    yield keeps("torch-array-dataset", "memory_torch.py list --seconds 6 --healthy", needs="torch")
    ten = {"evidence": {"growth": between(9 * MIB, 11.5 * MIB)}}
    yield grows("python-leak", "memory.py python-leak --seconds 32", "DLP0505", **ten)
    yield grows("native-leak", "memory.py native-leak --seconds 32", "DLP0505", **ten)
    yield grows("loop-leak", "memory.py loop-leak --seconds 32", "DLP0505", **ten)
    yield grows("leak-in-all", "memory.py leak-in-all --seconds 32", "DLP0505",
                evidence={"growth": between(18 * MIB, 23 * MIB)})
    yield grows("torch-leak", "memory_torch.py leak --seconds 32", "DLP0505", needs="torch", **ten)
    yield keeps("torch-no-leak", "memory_torch.py leak --seconds 32 --healthy", needs="torch")
    yield grows("unbounded-queue", "memory.py unbounded-queue --seconds 32", "DLP0506",
                evidence={"growth": between(16 * MIB, 23 * MIB)})
    yield keeps("bounded-queue", "memory.py unbounded-queue --seconds 32 --healthy")
    for kind in ("page-cache", "mapped-file", "warm-up", "bounded-cache", "sawtooth", "epochs", "churn"):
        yield keeps(kind, f"memory.py {kind} --seconds 30")


def growing():
    """What becomes more along a line is told in a quarter of a minute; what fills and stops is not."""
    watch = {"probe": "run", "needs": "python", "pace": "slow", "leaves_job": True, "dlprobe_options": ["--for", "16s"]}
    per_second = [("descriptors", "DLP0204", 44), ("mappings", "DLP0206", 200), ("threads", "DLP0603", 5),
                  ("segments", "DLP0104", 5), ("semaphores", "DLP0104", 10), ("zombies", "DLP0603", 20)]
    kinds = [(kind, first, {"growth_per_second": between(0.9 * rate, 1.1 * rate)}) for kind, first, rate in per_second]
    kinds.append(("memory", "DLP0505", {"growth": between(7 * MIB, 9 * MIB)}))
    for kind, first, rate in kinds:
        yield Case(f"growth-{kind}", f"growth.py {kind}", first=first, severity="warning", confidence="possible",
                   evidence=rate, verdicts=("warn",), **watch)
        yield Case(f"growth-{kind}-that-stops", f"growth.py {kind} --healthy", quiet=True, verdicts=("pass",), **watch)
    to_its_end = watch | {"dlprobe_options": [], "leaves_job": False}
    yield Case("growth-memory-to-its-end", "growth.py memory --seconds 20", first="DLP0505", severity="warning",
               confidence="possible", verdicts=("warn",), **to_its_end)
    yield Case("growth-memory-that-ends-slowly", "growth.py memory --seconds 20 --ends-s 4", first="DLP0505", severity="warning",
               confidence="possible", verdicts=("warn",), **to_its_end)
    yield Case("growth-memory-bounded", "growth.py memory --most 100000", quiet=True, verdicts=("pass",), **watch)
    yield Case("growth-memory-joined", "growth.py memory --seconds 20 --joins", quiet=True, verdicts=("pass",), **to_its_end)
    for name, how, twin in (("threads", "threads --rate 20", "threads --rate 20 --healthy --fills-s 3"), ("zombies", "zombies", "reaped")):
        yield Case(f"growth-{name}-of-a-short-life", f"growth.py {how} --seconds 7", first="DLP0603", severity="warning",
                   confidence="possible", verdicts=("warn",), **to_its_end)
        yield Case(f"growth-no-{name}-of-a-short-life", f"growth.py {twin} --seconds 7", quiet=True, verdicts=("pass",), **to_its_end)
    beside = {"beside": ["growth.py let_go_segments --seconds 60"], **watch}
    yield Case("growth-let-go-segments", "growth.py let_go_segments", first="DLP0104", severity="warning",
               evidence={"growth_per_second": between(4.5, 5.5)}, verdicts=("warn",), **beside)
    yield Case("growth-let-go-segments-of-another-job", "growth.py segments --healthy --fills-s 1", quiet=True,
               verdicts=("pass",), **beside)
    for kind, first in (("descriptors", "DLP0204"), ("memory", "DLP0505"), ("threads", "DLP0603")):
        in_pool = f"growth.py {kind} --pool"
        yield Case(f"growth-{kind}-in-a-pool", in_pool, first=first, verdicts=("warn",), **watch)
        yield Case(f"growth-{kind}-in-a-pool-that-stops", f"{in_pool} --healthy", quiet=True, verdicts=("pass",), **watch)
    of_loader = watch | {"needs": "torch", "dlprobe_options": ["--for", "25s"]}
    yield Case("growth-iterators", "growth_torch.py iterators --seconds 60", first="DLP0603", also=["DLP0204"], verdicts=("warn",), **of_loader)
    yield Case("growth-iterators-let-go", "growth_torch.py iterators --healthy --seconds 60", quiet=True, verdicts=("pass",), **of_loader)


def out_of_descriptors(name, job, first, **changes):
    arguments = {"probe": "fd", "first": first, "severity": "error", "confidence": "certain", "also": ["DLP0202"]}
    return Case(f"fd-{name}", job, **(arguments | changes))


def enough_descriptors(name, job, **changes):
    arguments = {"probe": "fd", "silent": True, "verdicts": ("pass",), "pace": "slow"}
    return Case(f"fd-healthy-{name}", job, **(arguments | changes))


def descriptors():
    """Limits of descriptors and mappings."""
    kept = "descriptors.py --keep 1000 --step-ms 10"
    leak = "descriptors.py --step-ms 10 --sample-ms 10 --leak"
    # The worker that meets its limit first in its send thread loses the batch, and the trainer waits for ever.
    may_hang = {"leaves_job": True, "dlprobe_options": ["--for", "12s"]}
    backlog = "descriptors.py --prefetch 20 --sample-ms 1 --first-step-ms 1500 --step-ms 5"
    of_files = {"kind": equals("file"), "of_kind": between(150, 256), "growth_per_second": between(10, 200)}
    yield out_of_descriptors("batches-kept", f"{kept} --batches 400", "DLP0203",
                             evidence={"kind": equals("shm-segment"), "of_kind": between(180, 256),
                                       "limit": equals(256), "held": holds("/dev/shm/torch_")})
    yield out_of_descriptors("batches-kept-spawn", f"{kept} --batches 400 --start-method spawn", "DLP0203", pace="slow")
    yield out_of_descriptors("files-leaked", f"{leak} files --batches 400", "DLP0204", evidence=of_files, **may_hang)
    yield out_of_descriptors("files-leaked-forkserver", f"{leak} files --batches 400 --start-method forkserver",
                             "DLP0204", evidence=of_files, pace="slow", **may_hang)
    yield out_of_descriptors("sockets-leaked", f"{leak} sockets --batches 400", "DLP0204", pace="slow",
                             evidence={"kind": equals("socket"), "held": holds("x socket")}, **may_hang)
    yield out_of_descriptors("files-leak-foretold", f"{leak} files --batches 2000 --limit 1500", "DLP0204", also=[],
                             never=["DLP0202"], confidence="likely", pace="slow", leaves_job=True,
                             dlprobe_options=["--for", "12s"], evidence={"time_to_limit": between(1, 60)})
    yield out_of_descriptors("limit-too-low", f"{backlog} --batches 100 --limit 40", "DLP0201", confidence="likely",
                             pace="slow", evidence={"limit": equals(40)})
    yield out_of_descriptors("tensors-kept-of-a-queue", "descriptors_queue.py", "DLP0203", pace="slow",
                             evidence={"held": holds("/dev/shm/torch_")})
    yield Case("fd-shared-position", "risks.py shared-position", probe="fd", needs="python", attach_when_ready=True,
               pace="slow", dlprobe_options=["--for", "7s"], first="DLP0205", no_errors=True, verdicts=("warn",))
    python = partial(out_of_descriptors, needs="python", pace="slow", also=[])
    yield python("mappings", "descriptors_python.py mappings", "DLP0206", evidence={"mappings": between(64_000, 66_000)})
    yield python("files-leaked-in-a-pool", "descriptors_python.py pool", "DLP0204", also=["DLP0202"])
    for job in ("mappings", "pool"):
        yield enough_descriptors(f"python-{job}", f"descriptors_python.py {job} --healthy", needs="python")
    yield enough_descriptors("batches-kept", f"{kept} --batches 150 --limit 4096")
    yield enough_descriptors("files", f"{leak} files --batches 50 --limit 4096")
    yield enough_descriptors("cache", f"{leak} cache --batches 150", pace="quick")
    yield enough_descriptors("sockets-closed", f"{leak} sockets-closed --batches 100")
    yield enough_descriptors("backlog", f"{backlog} --batches 300")
    yield enough_descriptors("file-system", f"{kept} --batches 300 --strategy file_system")


def starts_badly(name, job, first, **changes):
    arguments = {"probe": "spawn-recursion", "needs": "python", "first": first, "severity": "error",
                 "confidence": "certain"}
    return Case(f"starts-{name}", f"starts/{job}", **(arguments | changes))


def starts_well(name, job, **changes):
    arguments = {"probe": "spawn-recursion", "needs": "python", "silent": True, "verdicts": ("pass",)}
    return Case(f"starts-healthy-{name}", f"starts/{job}", **(arguments | changes))


def starts_of_python():
    """What breaks under spawn and forkserver, with bare multiprocessing."""
    for name, line in (("process", 11), ("pool", 9), ("subclass", 14)):
        yield starts_badly(f"no-guard-{name}", f"no_guard_{name}.py", "DLP0401",
                           pace="everywhere" if name == "pool" else "quick",
                           evidence={"statement": holds(f"/no_guard_{name}.py:{line}")})
    yield starts_badly("no-guard-in-module", "no_guard_in_module.py", "DLP0401",
                       evidence={"statement": holds("/starts_at_import.py:10")})
    kinds = {"lambda": "lambda", "local-class": "Hidden", "open-file": "_io.TextIOWrapper", "lock": "_thread.lock",
             "generator": "generator", "sqlite": "sqlite3.Connection", "module": "module"}
    for kind, type_name in kinds.items():
        yield starts_badly(f"unpicklable-{kind}", f"unpicklable.py {kind}", "DLP0402",
                           pace="everywhere" if kind in ("lambda", "lock") else "quick",
                           evidence={"path": holds("dataset.transform.steps[1].what"), "type": holds(type_name)})
    yield starts_badly("pool-in-pool", "pool_in_pool.py", "DLP0403", pace="everywhere",
                       evidence={"statement": holds("/pool_in_pool.py:12")})
    yield starts_badly("set-twice", "set_twice.py", "DLP0404", pace="everywhere",
                       evidence={"second_time": holds("/set_twice.py:20"), "first_time": holds("/set_twice.py:11")})
    for form in ("stdin", "code"):
        yield starts_badly(f"from-{form}", "not_there.py", "DLP0407", form=form, pace="everywhere")
    yield starts_badly("heavy-module", "heavy_module.py", "DLP0406", severity="warning", verdicts=("warn",),
                       no_errors=True, evidence={"own_work": between(1, 10)})
    yield starts_badly("port-at-import", "port_at_import.py", "DLP0407", evidence={"raised_at": holds("/port_at_import.py:11")})
    yield starts_badly("recursion", "starts_itself.py", "DLP0409", confidence=None, pace="everywhere",
                       dlprobe_options=["--start-method", "spawn"], evidence={"descents": between(1, 6)})
    for kind in ("name", "changed", "environment", "task"):
        job = f"set_under_guard.py {kind}"
        pace = "everywhere" if kind == "name" else "quick"
        known = {"evidence": {"in_main_module": equals("factor")}} if kind == "name" else {"confidence": "likely"}
        yield starts_badly(f"set-under-guard-{kind}", job, "DLP0411", pace=pace, **known)
        yield starts_well(f"set-under-guard-{kind}", f"{job} --healthy")
    yield starts_badly("falls-back", "falls_back.py", "DLP0402", severity="warning", verdicts=("warn",))
    yield starts_well("guarded", "guarded.py", pace="everywhere")
    yield starts_well("crowded", "heavy_module.py --crowded")
    yield starts_well("dash", "with-a-dash.py")
    yield starts_well("venv", "guarded.py", form="venv")
    yield starts_badly("venv", "unpicklable.py lambda", "DLP0402", form="venv")
    yield starts_well("package", "pkg_ok", form="module")
    yield starts_well("nested-executors", "nested_executors.py")
    yield starts_well("own-context", "own_context.py spawn", dlprobe_options=["--start-method", "spawn"])
    yield starts_well("own-context-forced", "own_context.py fork", dlprobe_options=["--force"])
    yield starts_well("own-sitecustomize", "needs_own_site.py", pace="everywhere", python_path="starts/own_site")
    for job in ("pool_in_pool.py", "set_twice.py", "heavy_module.py", "port_at_import.py", "unpicklable.py lambda"):
        yield starts_well(job.partition(".")[0].replace("_", "-"), f"{job} --healthy",
                          dlprobe_options=["--start-method", "spawn"])
    yield starts_well("starts-others", "starts_itself.py --healthy")
    yield Case("starts-insists", "starts/own_context.py fork", probe="spawn-recursion", needs="python", silent=True,
               verdicts=("incomplete",))


def starts_of_torch():
    """What breaks under spawn and forkserver, with a DataLoader."""
    torch = partial(starts_badly, needs="torch")
    yield torch("torch-no-guard", "torch_no_guard.py", "DLP0401", evidence={"statement": holds("/torch_no_guard.py:6")})
    paths = {"transform": ("dataset.transform.transforms[1]", "lambda"), "local-dataset": ("dataset", "Hidden"),
             "collate": ("collate_fn", "lambda"), "init": ("init_fn", "local function")}
    for kind, (path, type_name) in paths.items():
        yield torch(f"torch-{kind}", f"torch_loader.py {kind}", "DLP0402",
                    evidence={"path": holds(path), "type": holds(type_name)})
    yield torch("torch-global", "torch_loader.py global", "DLP0411", evidence={"in_main_module": equals("scale")})
    yield torch("torch-nested", "torch_loader.py nested", "DLP0403")
    yield starts_well("torch", "torch_loader.py healthy", needs="torch")
    # Not seen on a GPU: a stand-in for a forked process after CUDA's initialisation, whose text is torch's own.
    under_fork = {"needs": "torch", "dlprobe_options": ["--start-method", "fork"]}
    yield starts_badly("torch-cuda-stand-in", "cuda_stand_in.py", "DLP0405", evidence={"statement": holds("/cuda_stand_in.py:23")},
                       **under_fork)
    yield starts_well("torch-cuda-stand-in", "cuda_stand_in.py --healthy", **under_fork)
    # Debian's Open MPI, which ends a process that mpirun did not start; mpirun itself then waits for ever.
    mpi = {"needs": "torch1", "modules": ("mpi4py",), "form": "mpirun", "dlprobe_options": ["--start-method", "spawn", "--for", "20s"]}
    yield starts_badly("mpi-in-worker", "mpi_module.py", "DLP0408", evidence={"statement": holds("/mpi_module.py:6")}, **mpi)
    yield starts_well("mpi", "mpi_module.py --healthy", **mpi)


def hang_cases():
    for group in (hangs_of_python, stood_before, idle_jobs, hangs_of_ranks, hangs_of_torch, hangs_of_wheels, risks, shared_handles):
        yield from group()


GROUPS = (starts_of_torch, failures, left_behind, twins, hang_cases, watched_to_the_end, deaths, deaths_of_torch, same_data, same_epochs, kept_settings, rewritten, lost_data, partial_data, unasked, raised, timed_out, fails_in_vain, handled, full, epoch_ends, refused_forks,
          memory_cases, growing, descriptors, starts_of_python, programs_of_others)
# In one more style, kind or start method what another case has; every start method is in another case of its code too.
REPEATS = frozenset("""
    data-copied-kind-state data-epochs-made-anew-workers-2-without-model data-epochs-not-evaluated
    data-epochs-not-made-anew-apart data-epochs-not-pairs data-epochs-not-statistics
    data-epochs-seeded-workers-workers-2-spawn-without-model
    data-epochs-weighted data-not-copied-workers-1 data-not-lazy-state data-not-overwritten-array data-not-overwritten-cache
    data-not-overwritten-clone data-not-overwritten-clone-spawn data-not-overwritten-constant
    data-not-overwritten-in-queue-copied data-not-overwritten-in-queue-fresh data-not-stream-endless-shuffled
    data-not-stream-hashed data-not-stream-shuffled data-overwritten-buffer-spawn data-overwritten-buffer-workers-1
    data-overwritten-collate-spawn data-overwritten-in-queue-same-spawn data-partial-caught data-ranks-alike-workers-1
    data-ranks-alike-workers-2 data-ranks-not-evaluated-spawn data-ranks-not-groups data-ranks-not-in-order data-ranks-not-parts-spawn data-ranks-not-shared-out-spawn
    data-ranks-not-stream-evaluated data-ranks-not-stream-skipped data-ranks-shuffled-learned-spawn
    data-ranks-stream-forkserver data-ranks-stream-workers-0 data-rewritten-not-clone data-rewritten-not-fresh
    data-rewritten-not-lockstep-strategy-file_system data-rewritten-not-pool-one-by-one data-rewritten-not-ring-in-turn
    data-rewritten-ring data-settings-epoch data-settings-not-unread data-settings-transform dies-rank-exits
    dies-rank-monitored exhausted-fork-file_system healthy-busy-trainer healthy-large-fork-file_system
    healthy-large-forkserver-file_descriptor healthy-large-spawn-file_system healthy-persistent-idle healthy-sample-raises
    healthy-slow-sample held-by-another-job-torch raised-timeout-short run-shared-reader-lines
    runs-position-of-trainer-alone runs-wheels-opencv stale-files starts-healthy-set-under-guard-task
    starts-set-under-guard-task starts-torch-collate starts-torch-init starts-torch-local-dataset
    """.split())
CASES = {case.name: replace(case, pace="slow") if case.name in REPEATS else case for group in GROUPS for case in group()}
assert REPEATS <= CASES.keys()


def codes_of(case):
    return (case.first,) if isinstance(case.first, str) else case.first or ()


def likeness(failing, healthy):
    """Of the same script; else of the same probe; else by name."""
    scripts = [(case.job or "").split(" ")[0] for case in (failing, healthy)]
    same_name = SequenceMatcher(None, failing.name, healthy.name).ratio()
    return scripts[0] == scripts[1], failing.probe == healthy.probe, same_name


def is_healthy(case):
    return case.first is None and (case.silent or case.quiet or case.no_errors)


def essentials():
    """The names of the cases that tools/check runs: for each finding code the first case that takes no minutes and no library
    beside torch, and the healthy one that is likest to it."""
    quick = [case for case in CASES.values() if case.pace != "slow" and not case.modules]
    codes = {}
    for case in quick:
        for code in codes_of(case):
            codes.setdefault(code, case)
    healthy = [case for case in quick if is_healthy(case)]
    return {case.name for failing in codes.values()
            for case in (failing, max(healthy, key=partial(likeness, failing)))}
