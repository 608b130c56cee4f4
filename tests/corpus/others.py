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
    searches = ("DLP0313", "DLP0312")
    yield met("class-that-is-not-there", "balanced_shards.py", searches, **WARNS)
    yield watched("class-that-is-not-there", "balanced_shards.py", searches, dlprobe_options=["--for", "50s"], **WARNS)
    yield fine("classes-that-are-there", "balanced_shards.py --model-classes 20")
    yield met("paused-for-memory", "kaggle_baseline.py", "DLP0311", evidence={"state": equals("T")})
    yield watched("paused-for-memory", "kaggle_baseline.py", "DLP0311", pace="quick")
    yield fine("paused-and-resumed", "kaggle_baseline.py --resume")
    yield fine("never-paused", "kaggle_baseline.py --no-pause")
    yield met("service-that-is-silent", "captions_asyncio.py", "DLP0314", **WARNS)
    yield fine("service-that-answers", "captions_asyncio.py --delay 0.01")


def talks():
    """A program and its filter that wait for one another."""
    yield met("filter-that-keeps-its-lines", "annotate_stdin.py", "DLP0303", severity="error")
    yield watched("filter-that-keeps-its-lines", "annotate_stdin.py", "DLP0303")
    yield fine("filter-that-writes-each-line", "annotate_stdin.py -u")


def ends():
    """What ends badly, grows, or ends late."""
    yield watched("mapping-rewritten", "genome_windows.py", "DLP0512", dlprobe_options=[], exit_codes=(1,))
    yield fine("mapping-replaced", "genome_windows.py --refresh rename")
    yield fine("file-in-memory", "genome_windows.py --in-memory")
    yield watched("utterances-in-a-queue", "stream_transcripts.py", ("DLP0506", "DLP0505"), dlprobe_options=["--for", "32s"], **WARNS)
    # Within one process nobody writes: what the reader thread made cannot be told from what the loop keeps.
    yield watched("utterances-in-a-thread", "stream_transcripts.py --threads", "DLP0505", dlprobe_options=["--for", "32s"], **WARNS)
    torch = {"needs": "torch", "dlprobe_options": [], "exit_codes": (1,), "severity": "error"}
    yield watched("hogwild-exit", "hogwild.py", "DLP0510", **torch)
    yield watched("hogwild-assert", "hogwild.py --accident assert", ("DLP0510", "DLP0514"), **torch)
    yield watched("hogwild-abort", "hogwild.py --accident abort", "DLP0509", **torch)
    yield fine("hogwild", "hogwild.py --accident no", needs="torch")
    yield watched("epochs-end-late", "bert_pretrain.py --context spawn --sharing file_system --epochs 3 --blocks 400", "DLP0111",
                  needs="torch", dlprobe_options=["--for", "60s"], **WARNS)
    yield fine("epochs-under-fork", "bert_pretrain.py --sharing file_system --epochs 3 --blocks 400", needs="torch")
    yield fine("epochs-by-descriptor", "bert_pretrain.py --context spawn --epochs 3 --blocks 400", needs="torch")
    ddp = {"needs": "torch", "dlprobe_options": ["--for", "50s"]}
    yield watched("ddp-uneven", "ddp_linear.py --spawn 2 --uneven 3", "DLP0704", **ddp)
    yield watched("ddp-slow-row", "ddp_linear.py --spawn 2 --slow 600", ("DLP0702", "DLP0313"), **WARNS, **ddp)
    yield watched("ddp-metric-of-one", "ddp_linear.py --spawn 2 --metric rank0 --epochs 3", ("DLP0514", "DLP0509"), **(ddp | {"dlprobe_options": [], "exit_codes": (1,)}))
    yield fine("ddp-metric-of-all", "ddp_linear.py --spawn 2 --metric all", needs="torch")
    yield fine("ddp-row-of-six-seconds", "ddp_linear.py --spawn 2 --slow 6", needs="torch")


def starts():
    """What workers lack that start anew, or is asked for twice."""
    fails = {"dlprobe_options": [], "exit_codes": (1,), "confidence": "certain"}
    yield watched("table-under-guard", "fraud_tabular.py", "DLP0411", pace="quick", **fails, evidence={"in_main_module": equals("table")})
    yield watched("table-under-guard-forkserver", "fraud_tabular.py --start forkserver", "DLP0411", **fails)
    yield fine("table-sent", "fraud_tabular.py --share")
    yield fine("table-copied-by-fork", "fraud_tabular.py --start fork")
    yield watched("method-set-for-each-fold", "fraud_tabular.py --share --folds 2 --set-each-fold", "DLP0404", **fails)
    yield fine("two-folds", "fraud_tabular.py --share --folds 2")
    yield fine("method-set-for-one-fold", "fraud_tabular.py --share --set-each-fold")


def space():
    """What has no room."""
    yield watched("frames-kept", "point_clouds.py", "DLP0102")
    yield fine("frames-let-go", "point_clouds.py --keep 4")
    yield fine("frames-that-fit", "point_clouds.py --frames 40")
    few = {"needs": "torch", "dlprobe_options": ["--limit-fds", "256"]}
    yield watched("batches-of-outputs", "bert_pretrain.py --keep batch", "DLP0203", exit_codes=(1,), **few)
    yield fine("copies-of-outputs", "bert_pretrain.py --keep copy", **few)
    yield fine("losses-of-outputs", "bert_pretrain.py", **few)


def programs_of_others():
    yield from starts()
    yield from space()
    yield from talks()
    yield from ends()
    yield from hangs()
