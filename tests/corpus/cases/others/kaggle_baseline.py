# my baseline, public LB 0.71
import gc, os, sys, time, signal, random
from multiprocessing import Process, Queue, cpu_count

DEBUG = False
SEED = 42
N_WORKERS = 3
MEM_LIMIT_MB = float(os.environ.get("MEM_LIMIT_MB", "1"))   # pause loaders above this, the kernel has 13 GB only
RESUME = "--resume" in sys.argv
NO_PAUSE = "--no-pause" in sys.argv
random.seed(SEED)

q_in = Queue()
q_out = Queue(4)


def worker(q_in, q_out):
    while True:
        i = q_in.get()
        if i is None:
            break
        img = [[(x * y * i) % 255 for x in range(48)] for y in range(48)]
        q_out.put((i, img))


def rss_mb():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096 / 1e6


procs = [Process(target=worker, args=(q_in, q_out), daemon=True) for _ in range(N_WORKERS)]
for p in procs:
    p.start()

N = 3000
for i in range(N):
    q_in.put(i)

loss = 0
paused = False
for step in range(N):
    i, img = q_out.get()
    loss += sum(map(sum, img)) % 7
    if step == 500 and rss_mb() > MEM_LIMIT_MB and not NO_PAUSE:
        for p in procs:
            os.kill(p.pid, signal.SIGSTOP)
        gc.collect()
        time.sleep(1)
        paused = True
        if RESUME:
            for p in procs:
                os.kill(p.pid, signal.SIGCONT)
    if step % 500 == 0:
        print(step, loss, flush=True)
for p in procs:
    q_in.put(None)
print("done", loss)
