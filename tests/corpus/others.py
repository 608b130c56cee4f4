"""Programs by other hands: written as people write theirs, without a word to this harness. Each is watched by
`dlprobe run` or met by `dlprobe attach PID`, neither of which is told what to look for."""
from case import Case, equals

FOLDER = "others"


def met(name, job, first, **changes):
    """A job that `dlprobe attach PID` meets while it stands."""
    arguments = {"probe": "attach", "needs": "python", "pace": "slow", "attach_after_s": 6, "first": first}
    return Case(f"others-met-{name}", f"{FOLDER}/{job}", **(arguments | changes))


def watched(name, job, first, **changes):
    """A job that `dlprobe run` starts and watches; what hangs goes on after that."""
    arguments = {"probe": "run", "needs": "python", "pace": "slow", "dlprobe_options": ["--for", "14s"], "leaves_job": True,
                 "first": first}
    return Case(f"others-run-{name}", f"{FOLDER}/{job}", **(arguments | changes))


def fine(name, job, **changes):
    """A job that looks like one of them, and of which nothing is said."""
    arguments = {"probe": "run", "needs": "python", "pace": "slow", "quiet": True, "verdicts": ("pass",), "exit_codes": (0,)}
    return Case(f"others-fine-{name}", f"{FOLDER}/{job}", **(arguments | changes))


WARNS = {"verdicts": ("warn",), "severity": "warning"}


def hangs():
    """What stands still."""
    yield met("worker-killed-with-lock", "detector_trainer.py", "DLP0304", **WARNS)
    yield watched("worker-killed-with-lock", "detector_trainer.py", "DLP0304", **WARNS)
    yield fine("worker-asked-to-end", "detector_trainer.py --polite")
    yield fine("no-lock-in-common", "detector_trainer.py --private-caches")
    yield met("executor-of-notebook", "features_notebook.py", "DLP0305", pace="quick")
    yield watched("executor-of-notebook", "features_notebook.py", "DLP0305")
    yield fine("executor-per-worker", "features_notebook.py --pool-per-worker")
    yield fine("executor-without-workers", "features_notebook.py --serial")
    yield met("native-read-with-gil", "prefetch_native.py", "DLP0307")
    yield watched("native-read-with-gil", "prefetch_native.py", "DLP0307", dlprobe_options=["--for", "40s"])
    yield fine("native-read-without-gil", "prefetch_native.py --release")
    yield fine("native-read-of-a-process", "prefetch_native.py --process")
    yield met("report-never-read", "eval_subprocess.py", "DLP0303", pace="quick")
    yield watched("report-never-read", "eval_subprocess.py", "DLP0303")
    yield fine("report-read", "eval_subprocess.py --how communicate")
    yield fine("short-report", "eval_subprocess.py --images 100")
    yield met("class-that-is-not-there", "balanced_shards.py", ("DLP0313", "DLP0312"), **WARNS)
    yield fine("classes-that-are-there", "balanced_shards.py --model-classes 20")
    yield met("paused-for-memory", "kaggle_baseline.py", "DLP0311", evidence={"state": equals("T")})
    yield watched("paused-for-memory", "kaggle_baseline.py", "DLP0311", pace="quick")
    yield fine("paused-and-resumed", "kaggle_baseline.py --resume")
    yield fine("never-paused", "kaggle_baseline.py --no-pause")
    yield met("service-that-is-silent", "captions_asyncio.py", "DLP0314", **WARNS)
    yield fine("service-that-answers", "captions_asyncio.py --delay 0.01")


def programs_of_others():
    yield from hangs()
