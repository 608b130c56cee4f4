"""Jobs of bare multiprocessing whose processes end in the ways that deaths_common.py knows, and healthy ones whose
processes end, too. Python 3.8 and later."""
import argparse
import contextlib
import multiprocessing
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time

from deaths_common import ENDS, ask_to_be_killed, fill, memory_group, run_in


def work(kind, number, indices, results):
    """A worker: one sample for each index; worker 0 comes to its end at its third."""
    while True:
        index = indices.get()
        if index is None:
            return
        if number == 0 and index >= 4 and kind is not None:
            ENDS[kind]()
        time.sleep(0.02)
        results.put(index)


def train(options):
    """Two workers; the trainer fails when one of them is gone."""
    if options.kind.startswith("cpu-limit"):
        resource.setrlimit(resource.RLIMIT_CPU, (1, 1 if options.kind.endswith("hard") else 4))
    context = multiprocessing.get_context(options.method)
    results = context.Queue()
    channels = [context.Queue() for _ in range(2)]
    kind = None if options.healthy else options.kind
    workers = [context.Process(target=work, args=(kind, number, channels[number], results), daemon=True)
               for number in range(2)]

    def start():
        for worker in workers:
            worker.start()

    if options.kind == "tied":
        threading.Thread(target=lambda: (start(), time.sleep(0.5))).start()
    else:
        start()
    for index in range(40):
        channels[index % 2].put(index)
    done = 0
    while done < 40:
        try:
            results.get(timeout=2)
            done += 1
        except queue.Empty:
            if any(not worker.is_alive() for worker in workers):
                raise RuntimeError("a worker is gone") from None
    for channel in channels:
        channel.put(None)
    for worker in workers:
        worker.join()


def in_group(options, who):
    """A job in a memory cgroup; `who` fills it."""
    inside = [sys.executable, __file__, "filled", "--who", who] + (["--healthy"] if options.healthy else [])
    with memory_group(120) as group:
        job = subprocess.Popen(inside, preexec_fn=run_in(group))
        code = job.wait()
    if code < 0:
        sys.exit(128 - code)
    sys.exit(code)


def filled(options):
    """The trainer or a worker touches more than its group may have."""
    time.sleep(0.3)
    if options.who == "worker":
        def end():
            time.sleep(0.5)
            kept = fill(20 if options.healthy else 300)
            time.sleep(0.2)
            del kept
        workers = [multiprocessing.Process(target=end if number == 0 else time.sleep,
                                           args=() if number == 0 else (2,)) for number in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        sys.exit(max(abs(worker.exitcode) for worker in workers))
    worker = multiprocessing.Process(target=time.sleep, args=(2,), daemon=True)
    worker.start()
    time.sleep(0.5)
    fill(20 if options.healthy else 300)


def whole_job_stopped(options):
    """Somebody outside ends every process of the job at once."""
    def name_all():
        path = os.path.join(os.environ["TMPDIR"], "kill-me")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(" ".join(str(pid) for pid in [worker.pid for worker in workers] + [os.getpid()]))
        os.rename(path + ".new", path)
    workers = [multiprocessing.Process(target=time.sleep, args=(20,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    if not options.healthy:
        name_all()
        time.sleep(20)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()


def closed_session(options):
    """The trainer leads a session on a terminal that is closed."""
    leader, terminal = os.openpty()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(os.open(os.ttyname(terminal), os.O_RDWR))  # becomes the controlling terminal
        os.close(leader)
        os.close(terminal)
        if options.healthy:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        workers = [multiprocessing.Process(target=time.sleep, args=(1.5,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        os._exit(0)
    os.close(terminal)
    time.sleep(0.8)
    os.close(leader)
    _pid, status = os.waitpid(pid, 0)
    sys.exit(0 if status == 0 else 1)


def trainer_killed(options):
    """The trainer itself is killed from outside; its workers notice."""
    def child():
        parent = os.getppid()
        while os.getppid() == parent:
            time.sleep(0.05)
        os._exit(1)
    workers = [multiprocessing.Process(target=child) for _ in range(2)]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    if not options.healthy:
        ask_to_be_killed()
    for worker in workers:
        worker.terminate()


def child_of_pool(index):
    return index * index


def pool(_options):
    """Workers that end after a few tasks, and are replaced."""
    with multiprocessing.Pool(3, maxtasksperchild=2) as workers:
        workers.map(child_of_pool, range(60), chunksize=1)


def failing_programs(_options):
    """Programs that say no by their exit code, as normal work."""
    workers = [multiprocessing.Process(target=time.sleep, args=(1,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(10):
        subprocess.call(["false"])
        subprocess.call([sys.executable, "-c", "raise SystemExit(7)"])
    for worker in workers:
        worker.join()


def killed_by_trainer(_options):
    """A trainer that ends its workers by force."""
    workers = [multiprocessing.Process(target=time.sleep, args=(30,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    time.sleep(0.7)
    for worker, end in zip(workers, (worker.kill for worker in workers)):
        end()
    workers[0].join()
    for worker in workers[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGTERM)
        worker.join()


def interrupted(_options):
    """As Ctrl-C: SIGINT to the whole group of a job."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        workers = [multiprocessing.Process(target=time.sleep, args=(20,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(20)
        os._exit(130)
    time.sleep(1)
    os.killpg(pid, signal.SIGINT)
    os.waitpid(pid, 0)


def caught(_options):
    """A worker's exceptions reach the trainer, which goes on."""
    with multiprocessing.Pool(2) as workers:
        for index in range(10):
            with contextlib.suppress(ValueError):
                workers.apply(int, (f"no number {index}",))
            time.sleep(0.05)


JOBS = {
    "oom-worker": lambda options: in_group(options, "worker"),
    "oom-trainer": lambda options: in_group(options, "trainer"),
    "filled": filled,
    "whole-job-stopped": whole_job_stopped,
    "closed-session": closed_session,
    "trainer-killed": trainer_killed,
    "pool": pool,
    "failing-programs": failing_programs,
    "killed-by-trainer": killed_by_trainer,
    "interrupted": interrupted,
    "caught": caught,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted([*ENDS, *JOBS]))
    parser.add_argument("--method", default="fork", choices=["fork", "spawn", "forkserver"])
    parser.add_argument("--who", default="worker")
    parser.add_argument("--healthy", action="store_true", help="the twin that nothing is wrong with")
    options = parser.parse_args()
    if sys.version_info >= (3, 14):
        multiprocessing.set_start_method("fork")
    JOBS.get(options.kind, train)(options)


if __name__ == "__main__":
    main()
