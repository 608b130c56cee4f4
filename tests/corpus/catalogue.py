"""The cases of the corpus: which job, on which /dev/shm, and what dlprobe must say of it."""
from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass
class Case:
    """One real job and what must be said of it. `job`, `before` and `beside` are lines of a script in
    cases/ with its arguments."""

    name: str
    job: str | None                              # None: dlprobe's own reference loader
    mount_options: str = "size=64m"
    before: list = field(default_factory=list)   # jobs that ran to their end before
    beside: list = field(default_factory=list)   # jobs that live meanwhile, and say "ready"
    settle_s: float = 0                          # between the jobs before and the examination
    attach_after_s: float | None = None          # with --pid, this long after the job's start
    dlprobe_options: list = field(default_factory=list)
    leaves_job: bool = False                     # --for ends the watch, not the job
    first: str | None = None                     # code of the first finding
    severity: str | None = None
    confidence: str | None = None
    evidence: dict = field(default_factory=dict)  # of the first finding: name -> test of the value
    also: list = field(default_factory=list)     # codes of later findings
    never: list = field(default_factory=list)
    silent: bool = False
    no_errors: bool = False
    verdicts: tuple = ("fail",)


def equals(wanted):
    return lambda value: value == wanted


def between(low, high):
    return lambda value: value is not None and low <= value <= high


def holds(text):
    return lambda value: value is not None and text in value


def exhausted(name, job, **changes):
    arguments = {"first": "DLP0102", "severity": "error", "confidence": "certain",
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
    yield Case("leak-of-abandoned-iterators", "abandoned.py --rounds 10", mount_options="size=512m",
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
    yield healthy("healthy-rise-and-fall", "healthy.py --job rise_and_fall")
    for job in ("long_step", "busy_trainer", "persistent_idle", "slow_sample"):
        yield healthy(f"healthy-{job.replace('_', '-')}", f"healthy.py --job {job}", silent=True)
    yield healthy("healthy-kept-batches", "healthy.py --job kept_batches", silent=True)
    yield healthy("healthy-exits-nonzero", "healthy.py --job exits_nonzero --batch-size 10")
    yield healthy("healthy-sample-raises", "healthy.py --job sample_raises --batch-size 10")
    yield healthy("healthy-beside-another-job", "healthy.py", beside=["holder.py --mib 20"], silent=True)
    yield healthy("healthy-attached", "healthy.py --batches 200 --step-ms 40 --strategy file_system",
                  attach_after_s=3, dlprobe_options=["--for", "3s"], silent=True)


CASES = {case.name: case for group in (failures, left_behind, twins) for case in group()}
