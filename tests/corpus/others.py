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
    yield met("regex-that-backtracks", "clean_reviews.py", ("DLP0312", "DLP0313"), dlprobe_options=["--for", "20s"], **WARNS)
    yield watched("regex-that-backtracks", "clean_reviews.py", ("DLP0312", "DLP0313"), dlprobe_options=["--for", "50s"], **WARNS)
    yield fine("regex-that-does-not", "clean_reviews.py --safe")
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
    torch = {"needs": "torch"}
    yield watched("loader-in-a-trial", "sweep_pool.py", "DLP0403", **torch, **fails)
    yield fine("loader-without-workers-in-a-trial", "sweep_pool.py --loader-workers 0", **torch)
    yield fine("loader-in-a-trial-of-futures", "sweep_pool.py --executor futures", **torch)
    yield watched("method-set-after-a-value", "spectrograms.py", "DLP0404", pace="quick", **fails)
    yield fine("method-never-set", "spectrograms.py --keep-default")
    checked = {"probe": "spawn-recursion", "dlprobe_options": [], "leaves_job": False}
    yield watched("trie-of-the-module", "ner_gazetteer.py", "DLP0406", **checked, **WARNS)
    yield fine("trie-of-the-module-under-fork", "ner_gazetteer.py --start fork")
    yield fine("no-trie", "ner_gazetteer.py --lazy")
    for form in ("stdin", "code"):
        yield watched(f"pasted-{form}", "column_stats.py", "DLP0407", form=form)
    yield fine("saved", "column_stats.py")
    yield watched("relaunch-without-end", "relaunch_threads.py", "DLP0409", **checked)
    yield fine("relaunch", "relaunch_threads.py --variable OMP_NUM_THREADS")
    mpi = {"needs": "torch1", "modules": ("mpi4py",), "form": "mpirun"}
    yield watched("pool-of-an-mpi-rank", "mpi_sweep.py", "DLP0408", dlprobe_options=["--for", "30s"], **mpi)
    yield fine("mpi-rank-without-pool", "mpi_sweep.py --no-pool", **mpi)


def space():
    """What has no room."""
    yield watched("frames-kept", "point_clouds.py", "DLP0102")
    yield fine("frames-let-go", "point_clouds.py --keep 4")
    yield fine("frames-that-fit", "point_clouds.py --frames 40")
    few = {"needs": "torch", "dlprobe_options": ["--limit-fds", "256"]}
    yield watched("batches-of-outputs", "bert_pretrain.py --keep batch", "DLP0203", exit_codes=(1,), **few)
    yield fine("copies-of-outputs", "bert_pretrain.py --keep copy", **few)
    yield fine("losses-of-outputs", "bert_pretrain.py", **few)
    limited = {"needs": "torch", "exit_codes": (1,)}
    yield watched("map-for-each-window", "gpt_memmap.py --fresh-maps --hold 100000 --iters 4000", ("DLP0204", "DLP0202"),
                  dlprobe_options=["--limit-fds", "1024"], **limited)
    many = "bert_pretrain.py --sharing file_system --fields 60 --blocks 9600 --length 16 --epochs 1"
    large = {"needs": "torch", "mount_options": "size=600m"}
    yield watched("batches-of-many-fields", f"{many} --keep batch", "DLP0206", dlprobe_options=["--for", "80s"], exit_codes=(1,), **large)
    yield fine("losses-of-many-fields", many, **large)
    yield fine("map-for-each-window-let-go", "gpt_memmap.py --fresh-maps", needs="torch")
    yield fine("map-for-each-shard", "gpt_memmap.py --hold 100000", needs="torch")
    yield watched("recordings-kept-open", "keywords_audio.py data.close=false", "DLP0204", dlprobe_options=["--limit-fds", "512"], **limited)
    yield fine("recordings-closed", "keywords_audio.py", **few)
    yield watched("recordings-opened-ahead", "keywords_audio.py data.open_all=true data.recordings=300 data.repeat=1", "DLP0202", **(few | limited))
    yield fine("recordings-opened-ahead-that-fit", "keywords_audio.py data.open_all=true data.recordings=100", **few)
    burst = "keywords_audio.py data.lengths=12 loader.prefetch_factor=8 warm_up=3"
    yield watched("prefetch-beyond-limit", burst, "DLP0201", **(few | limited | {"dlprobe_options": ["--limit-fds", "128"]}))
    yield fine("prefetch-within-limit", burst, needs="torch", dlprobe_options=["--limit-fds", "1024"])


def replay():
    """Actors and a learner with a buffer in shared memory."""
    yield met("actor-killed-with-lock", "replay_actors.py --crash-at 50", "DLP0304", severity="error")
    yield watched("actor-killed-with-lock", "replay_actors.py --crash-at 50", "DLP0503", severity="error", also=["DLP0304"])
    yield fine("actors", "replay_actors.py")
    yield fine("episodes-as-segments", "replay_actors.py --unroll")
    yield watched("episodes-never-unlinked", "replay_actors.py --unroll --never-unlink --updates 4000", "DLP0104",
                  dlprobe_options=["--for", "30s"], **WARNS)
    yield watched("episodes-without-inodes", "replay_actors.py --unroll --never-unlink", "DLP0108",
                  mount_options="size=64m,nr_inodes=60")
    left = {"before": ["others/replay_actors.py --updates 40 --lose-learner --capacity 1000000"], "mount_options": "size=40m"}
    yield watched("frames-beside-a-buffer", "point_clouds.py --keep 45", "DLP0105", beside=["others/replay_actors.py --capacity 1200000"])
    yield fine("frames-beside-a-small-buffer", "point_clouds.py --keep 4", beside=["others/replay_actors.py"])
    semaphores = "others/replay_actors.py --start spawn --updates 40 --lose-learner"
    yield watched("semaphores-of-a-lost-job", "replay_actors.py", "DLP0107", before=[semaphores] * 3, settle_s=10.5, dlprobe_options=[], **WARNS)
    yield fine("no-semaphores-of-a-job", "replay_actors.py", before=["others/replay_actors.py --start spawn --updates 40"])
    yield watched("frames-beside-a-lost-buffer", "point_clouds.py --keep 4", "DLP0103", settle_s=10.5, **WARNS, **left)


def copies_of_threads():
    """What fork copies, and what it does not."""
    yield met("sqlite-connection-at-work", "labels_sqlite.py", "DLP0301")
    yield watched("sqlite-connection-at-work", "labels_sqlite.py", "DLP0301")
    yield fine("sqlite-connection-at-rest", "labels_sqlite.py --stats before")
    yield fine("sqlite-connection-for-each", "labels_sqlite.py --connection per-process")
    yield met("syslog-from-a-thread", "audit_syslog.py", "DLP0301")
    yield watched("syslog-from-a-thread", "audit_syslog.py", "DLP0301")
    yield fine("syslog-without-a-thread", "audit_syslog.py --no-heartbeat")
    torch = {"needs": "torch"}
    missing = ("DLP0305", "DLP0306", "DLP0302")
    yield met("read-ahead-before-fork", "video_prefetcher.py", missing, **torch)
    yield watched("read-ahead-before-fork", "video_prefetcher.py", missing, **torch)
    yield fine("read-ahead-in-the-worker", "video_prefetcher.py --lazy", **torch)
    yield met("metrics-before-fork", "metrics_writer.py", missing)
    yield watched("metrics-before-fork", "metrics_writer.py", missing)
    yield fine("metrics-of-each", "metrics_writer.py --own")
    yield fine("metrics-of-the-parent", "metrics_writer.py --silent-workers")


def lost_peers():
    """Who is gone, or does not answer."""
    yield watched("feeders-of-a-crashed-attempt", "eval_supervisor.py --back-off 600", "DLP0309", **WARNS)
    yield fine("feeders-that-were-stopped", "eval_supervisor.py --clean --steps 400")
    nas = {"needs": "torch", "device": "/dev/fuse"}
    image = "crop_nas.py /dev/shm/storage/data"
    for how in ("read", "map"):
        yield met(f"storage-does-not-answer-to-{how}", f"{image} --how {how}", "DLP0310", beside=["slow_storage.py"], **WARNS, **nas)
        yield fine(f"storage-answers-to-{how}", f"{image} --how {how} --crops 40", beside=["slow_storage.py --healthy"], **nas)
    yield watched("storage-does-not-answer", image, "DLP0310", beside=["slow_storage.py"], **nas)
    ranks = {"needs": "torch", "dlprobe_options": ["--for", "60s"]}
    yield watched("rank-that-stops-alone", "gan_two_ranks.py --stop-alone", "DLP0704", **ranks)
    # The other rank waits for it in init_process_group.
    yield watched("rank-without-its-file", "gan_two_ranks.py --real /nowhere/points.pt", ("DLP0510", "DLP0514", "DLP0705"), **WARNS, **ranks)
    yield watched("statistics-by-two-calls", "gan_two_ranks.py --gather-on-first", "DLP0703", **ranks)
    yield fine("two-ranks", "gan_two_ranks.py", needs="torch")
    mpi = {"needs": "torch1", "modules": ("mpi4py",)}
    slowest = {"severity": "info", "verdicts": ("pass",), "dlprobe_options": ["--for", "8s"]}
    yield met("rod-with-odd-barrier", "heat_mpi.py --odd-barrier", "DLP0703", **mpi)
    yield met("rod-with-long-piece", "heat_mpi.py --long-piece", "DLP0706", **slowest, **mpi)
    yield fine("rod", "heat_mpi.py", **mpi)
    yield watched("log-on-one-rank", "keep_averages.py --log-on-one", "DLP0703", **ranks)
    yield met("late-forward-of-one-rank", "keep_averages.py --late-forward", "DLP0706", needs="torch", attach_after_s=15, **slowest)
    yield fine("averages", "keep_averages.py", needs="torch")
    yield met("rank-without-its-shard", "shards_by_hand.py --lost-shard", ("DLP0510", "DLP0705"), **WARNS, needs="torch",
              attach_after_s=15)
    yield fine("rank-with-late-shard", "shards_by_hand.py --late-shard", needs="torch")
    # Its GIL is kept as well, but nobody lacks it: the lock is what it waits for.
    yield met("index-lock-of-a-compaction", "neighbours_index.py", "DLP0313", dlprobe_options=["--for", "20s"], **WARNS)
    yield watched("index-lock-of-a-compaction", "neighbours_index.py", "DLP0313", dlprobe_options=["--for", "40s"], **WARNS)
    yield fine("index-lock-for-five-seconds", "neighbours_index.py --compaction 5")
    yield fine("index-lock-without-gil", "neighbours_index.py --compaction 5 --release-gil")
    yield met("barrier-with-gil", "stencil_threads.py --keep-gil", ("DLP0307", "DLP0303"))
    yield watched("barrier-with-gil", "stencil_threads.py --keep-gil", ("DLP0307", "DLP0303"), dlprobe_options=["--for", "40s"])
    yield fine("barrier-without-gil", "stencil_threads.py")
    yield fine("barrier-of-one-with-gil", "stencil_threads.py --keep-gil --tiles 1")


def limits():
    """Within a batch system, or at a terminal that closes."""
    events = "recsys_events.py --columns --events 100000"
    yield watched("cpu-time", f"batch_limits.py --cpu 3 {events} --seconds 30", "DLP0503", dlprobe_options=["--for", "20s"])
    yield fine("cpu-time-that-is-enough", f"batch_limits.py --cpu 60 {events} --seconds 6")
    # Whoever started it ended it, on purpose.
    yield fine("wall-time", f"batch_limits.py --wall 5 {events} --seconds 30", exit_codes=(143,))
    yield fine("wall-time-that-is-enough", f"batch_limits.py --wall 60 {events} --seconds 6")
    torch = {"needs": "torch"}
    trials = "sweep_pool.py --executor futures --loader-workers 6"
    yield watched("tasks", f"batch_limits.py --tasks 12 {trials}", "DLP0603", dlprobe_options=[], **torch)
    yield fine("tasks-that-are-enough", f"batch_limits.py --tasks 200 {trials} --trials 3", **torch)
    yield watched("temporary-folder", "batch_limits.py --tmp-mib 1 keywords_audio.py data.recordings=300", "DLP0608", dlprobe_options=[], exit_codes=(1,), **torch)
    yield fine("temporary-folder-that-is-enough", "batch_limits.py --tmp-mib 16 keywords_audio.py data.recordings=300 data.repeat=2", **torch)
    yield watched("page-closed", f"web_terminal.py {events} --seconds 30", "DLP0511", dlprobe_options=[], exit_codes=(129,))
    yield fine("page-open", f"web_terminal.py --page-open 60 {events} --seconds 6")


def memory():
    """Memory that is copied, and that is not there."""
    yield watched("dicts-copied", "recsys_events.py", "DLP0504", dlprobe_options=["--for", "20s"], **WARNS)
    yield fine("columns-not-copied", "recsys_events.py --columns")
    limited = {"dlprobe_options": ["--limit-memory", "400m"]}
    yield watched("features-cached-without-bound", "recsys_events.py --columns --cache-features --seconds 60", "DLP0501",
                  dlprobe_options=["--limit-memory", "400m", "--for", "40s"])
    yield fine("columns-within-limit", "recsys_events.py --columns", **limited)


def data():
    """Data that repeat, lack, or are long in coming."""
    torch = {"needs": "torch"}
    ends = {"dlprobe_options": [], "leaves_job": False, "exit_codes": (0,), **WARNS}
    yield watched("archive-fetched-in-part", "xray_folder.py --lost 85", "DLP0607", **ends, **torch)
    yield fine("archive-fetched-whole", "xray_folder.py", **torch)
    yield fine("archive-with-gaps", "xray_folder.py --lost 10", **torch)
    yield watched("shards-for-every-worker", "shard_stream.py", "DLP0802", **ends, **torch)
    yield fine("shards-of-each-worker", "shard_stream.py own", **torch)
    yield fine("rows-of-each-worker", "shard_stream.py dealt", **torch)
    numpy = {"modules": ("numpy",)}
    yield watched("paths-of-one-stream", "option_prices.py", "DLP0801", **ends, **numpy)
    yield fine("stream-for-each-task", "option_prices.py --stream-per-task", **numpy)
    yield fine("stream-for-each-process", "option_prices.py --stream-per-process", **numpy)
    busy = {"dlprobe_options": ["--for", "40s"], **WARNS, **torch}
    yield watched("too-few-speakers", "speaker_batches.py --speakers 10", "DLP0315", **busy)
    yield fine("speakers", "speaker_batches.py", **torch)
    yield watched("edits-that-step-over-the-last", "edited_documents.py 3", "DLP0315", **busy)
    yield fine("edits", "edited_documents.py", **torch)
    yield fine("edits-in-fives", "edited_documents.py 5", **torch)


def of_space():
    """Shared memory, descriptors and temporary files."""
    shm = {"probe": "shm", "needs": "torch", "dlprobe_options": [], "leaves_job": False}
    yield watched("clips-that-barely-fit", "video_clips.py --step 0.4", "DLP0101", **(shm | WARNS))
    yield fine("clips-that-fit", "video_clips.py --side 112", **shm | {"exit_codes": ()})
    yield fine("clips-of-one-worker", "video_clips.py --workers 1 --step 0.1", **shm)
    yield watched("slabs-that-barely-fit", "volumes_stream.py", "DLP0101", **(shm | WARNS))
    yield fine("slabs-that-fit", "volumes_stream.py slab_mib=4", **shm)
    yield fine("slabs-of-shallow-prefetch", "volumes_stream.py prefetch=1", **shm)
    yield watched("clips-beside-a-buffer", "video_clips.py --side 160 --step 0.5", "DLP0105", needs="torch", dlprobe_options=["--for", "20s"],
                  beside=["others/replay_actors.py --capacity 1200000"])
    yield fine("clips-beside-a-small-buffer", "video_clips.py --side 112", needs="torch", beside=["others/replay_actors.py"])
    yield watched("trials-out-of-time", "tune_supervisor.py", "DLP0107", dlprobe_options=[], **WARNS)
    yield fine("trials-ended-politely", "tune_supervisor.py --signal SIGTERM")
    yield fine("trials-in-time", "tune_supervisor.py --rounds 2 --seconds 20")
    yield watched("fit-and-validate", "fit_loop.py --files", "DLP0111", needs="torch", dlprobe_options=[], **WARNS)
    yield fine("fit-with-descriptors", "fit_loop.py", needs="torch")
    yield fine("fit-under-fork", "fit_loop.py --files --context fork", needs="torch")
    few = {"needs": "torch", "dlprobe_options": ["--limit-fds", "128"]}
    yield watched("subgraphs-ahead", "subgraphs.py", "DLP0201", exit_codes=(1,), **few)
    yield fine("subgraphs-less-far-ahead", "subgraphs.py --prefetch 1", **few)
    yield fine("subgraphs-with-room", "subgraphs.py", needs="torch", dlprobe_options=["--limit-fds", "1024"])
    yield watched("slides-cached", "slide_tiles.py", "DLP0202", pace="quick", dlprobe_options=[], exit_codes=(1,))
    yield fine("slides-not-cached", "slide_tiles.py --no-cache", pace="quick")
    yield fine("slides-cached-with-room", "slide_tiles.py --files 1024")
    yield watched("scratch-that-is-full", "scratch_sort.py", "DLP0608", pace="quick", dlprobe_options=[], exit_codes=(1,))
    yield fine("scratch-with-room", "scratch_sort.py --scratch 64m", pace="quick")
    yield fine("scratch-of-short-runs", "scratch_sort.py --events 3000")


def of_starts():
    """How workers are started, and what they find."""
    torch = {"needs": "torch", "dlprobe_options": [], "exit_codes": (1,)}
    yield watched("policy-on-the-gpu", "gpu_rollouts.py", "DLP0405", **torch)
    yield fine("policy-on-the-cpu", "gpu_rollouts.py --actor-device cpu", needs="torch")
    yield fine("policy-on-the-cpu-spawned", "gpu_rollouts.py --actor-device cpu --start spawn", needs="torch")
    yield watched("collate-to-the-gpu", "gpu_collate.py", "DLP0405", **torch)
    yield fine("collate-on-the-cpu", "gpu_collate.py cpu", needs="torch")
    yield watched("table-of-items", "similar_items.py", "DLP0406", probe="spawn-recursion", dlprobe_options=[], leaves_job=False, **WARNS)
    yield fine("table-of-items-under-fork", "similar_items.py fork")
    yield fine("table-of-few-items", "similar_items.py spawn 2000")
    yield watched("ranks-that-launch-ranks", "launch_ranks.py", "DLP0409", pace="quick", probe="spawn-recursion", dlprobe_options=[], leaves_job=False)
    yield fine("ranks", "launch_ranks.py --rank-variable LOCAL_RANK", pace="quick")
    mpi = {"needs": "torch1", "modules": ("mpi4py",), "form": "mpirun"}
    yield watched("rank-asked-by-a-sample", "mpi_surrogate.py", "DLP0408", dlprobe_options=["--for", "30s"], **mpi)
    yield fine("rank-asked-once", "mpi_surrogate.py --rank-once", **mpi)
    yield fine("rank-asked-by-itself", "mpi_surrogate.py --workers 0", **mpi)
    refused = {"dlprobe_options": [], "exit_codes": (1,)}
    yield watched("table-beyond-memory", "table_in_ram.py", "DLP0513", pace="quick", **refused)
    yield fine("table-beyond-memory-spawned", "table_in_ram.py --start spawn")
    yield fine("table-of-less-than-memory", "table_in_ram.py --share 0.8", pace="quick")
    yield watched("state-beyond-memory", "snapshot_fork.py", "DLP0513", pace="quick", **refused)
    yield fine("state-in-memory", "snapshot_fork.py --small")


def of_waits():
    """Locks, storage, ranks, sessions."""
    yield met("stats-flushed-at-fork", "usage_stats.py", "DLP0306", pace="quick")
    yield watched("stats-flushed-at-fork", "usage_stats.py", "DLP0306")
    yield fine("stats-of-the-parent", "usage_stats.py --where parent")
    yield fine("stats-flushed-at-once", "usage_stats.py --delay 0 --where after-fork")
    nas = {"device": "/dev/fuse"}
    chunks = "corpus_chunks.py /dev/shm/storage/data"
    yield met("corpus-does-not-answer", chunks, "DLP0310", beside=["slow_storage.py"], **WARNS, **nas)
    yield fine("corpus-answers", chunks, beside=["slow_storage.py --healthy"], **nas)
    events = "recsys_events.py --columns --events 100000"
    yield watched("connection-lost", f"ssh_session.py {events} --seconds 30", "DLP0511", pace="quick", dlprobe_options=[], exit_codes=(129,))
    yield fine("connection-lost-under-nohup", f"ssh_session.py --nohup {events} --seconds 6")
    yield fine("connection-kept", f"ssh_session.py --connected 60 {events} --seconds 6")
    ranks = {"needs": "torch"}
    yield watched("client-that-never-comes", "federated.py --never-comes", "DLP0705", dlprobe_options=[], exit_codes=(1,), **ranks)
    yield watched("client-that-leaves", "federated.py --leaves-at 5", "DLP0704", dlprobe_options=[], exit_codes=(1,), **ranks)
    yield fine("clients", "federated.py --timeout 60", **ranks)
    yield fine("clients-of-one-round", "federated.py --timeout 60 --rounds 1", **ranks)


def of_risks():
    """Nothing fails yet."""
    info = {"severity": "info", "verdicts": ("pass",)}
    yield met("actors-after-warm-up", "actors_warm.py", "DLP0604", needs="torch2", **WARNS)
    yield fine("actors-of-one-thread", "actors_warm.py --one-thread", needs="torch2")
    yield fine("actors-spawned", "actors_warm.py --start spawn", needs="torch2")
    yield met("numba-beside-torch", "numba_augment.py", "DLP0605", needs="torch2", modules=("numba",), attach_after_s=10, **info)
    yield fine("numba-on-its-own-threads", "numba_augment.py --layer workqueue", needs="torch2", modules=("numba",))
    yield watched("clouds-pile-up", "point_queue.py", "DLP0506", needs="torch", mount_options="size=2g", dlprobe_options=["--for", "32s"], **WARNS)
    yield fine("clouds-bounded", "point_queue.py --bound 8 --seconds 12", needs="torch", mount_options="size=2g")
    yield watched("photos-that-are-none", "photos_or_none.py", "DLP0607", needs="torch", dlprobe_options=[], exit_codes=(0,), **WARNS)
    yield fine("photos", "photos_or_none.py --good 0.9", needs="torch")
    yield fine("photos-half", "photos_or_none.py --good 0.5 --start fork", needs="torch")
    yield watched("decoder-of-one-name", "decode_scratch.py", "DLP0805", pace="quick", dlprobe_options=[], exit_codes=(0,), modules=("importlib.metadata",), **WARNS)
    yield fine("decoder-of-own-names", "decode_scratch.py --own-name", pace="quick")
    yield fine("decoder-of-one-worker", "decode_scratch.py --workers 1")


def programs_of_others():
    yield from of_space()
    yield from of_starts()
    yield from of_waits()
    yield from of_risks()
    yield from data()
    yield from lost_peers()
    yield from limits()
    yield from memory()
    yield from replay()
    yield from copies_of_threads()
    yield from starts()
    yield from space()
    yield from talks()
    yield from ends()
    yield from hangs()
