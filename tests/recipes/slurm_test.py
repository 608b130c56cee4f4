"""The Slurm recipes on a Slurm of three nodes: Debian's slurmctld and three slurmd on this machine, with a munge of its own.

Each slurmd lives in a mount namespace with a /dev/shm of its own: that of n2 has 16 MiB. On n3 dlprobe cannot be executed: a
node that says nothing. Both are mended before the last tests.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import NEEDS_TORCH, TORCH_PYTHON, has_torch

RECIPES = Path(os.environ["DLPROBE_RECIPES"]) / "slurm"
DLPROBE = os.environ["DLPROBE"]
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol", "sinfo", "squeue")
LIMIT = 240  # for anything that Slurm is waited for; a job that is sent to another node waits for 120 s

os.environ["PATH"] += ":/usr/sbin:/sbin"

CONF = """
ClusterName=recipes
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
Prolog={folder}/prolog
Epilog={folder}/epilog
PrologFlags=Alloc
SchedulerParameters=nohold_on_prolog_fail
HealthCheckProgram={folder}/health
HealthCheckInterval=600
HealthCheckNodeState=IDLE
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=1 RealMemory=500 Weight=10 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=1 RealMemory=500 Weight=1 State=UNKNOWN
NodeName=n3 NodeHostname={host} NodeAddr=127.0.0.1 Port={n3} CPUs=1 RealMemory=500 Weight=20 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES State=UP OverSubscribe=YES:4
"""


def missing():
    """What this machine lacks to run the cluster; empty: nothing."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    if lacking:
        return f"needs {', '.join(lacking)}: apt-get install slurmctld slurmd slurm-client munge"
    if os.geteuid() != 0:
        return "needs root: slurmd starts steps as their users, and n2 has a /dev/shm of its own"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        return "needs the right to make a mount namespace (CAP_SYS_ADMIN)"
    return ""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def wait_for(what, condition, describe=lambda: ""):
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} within {LIMIT} s: {describe()}")
        time.sleep(0.2)
    return value


class Cluster:
    """munged, slurmctld and slurmd for n1, n2 and n3, in a folder of their own; ended by pid."""

    def __init__(self):
        self.processes = []
        self.slurmd = {}
        self.folder = Path(tempfile.mkdtemp(prefix="dlp-slurm."))
        self.folder.chmod(0o755)
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def wrapper(self, name, recipe):
        # Slurm runs these with an environment of its own; an installed dlprobe would be on its PATH.
        loader = os.environ.get("DLPROBE_REFERENCE_LOADER", "")
        self.write(name, f"""#!/bin/bash
[ -e {self.folder}/{name}.off ] && exit 0
export PATH={self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin SLURM_CONF={self.folder}/slurm.conf
export DLPROBE_LOGS={self.folder}/logs DLPROBE_REFERENCE_LOADER={loader}
{RECIPES / recipe} >>{self.folder}/{name}.out 2>&1
code=$?
echo "$SLURMD_NODENAME job ${{SLURM_JOB_ID:-none}} exit $code" >>{self.folder}/{name}.out
exit $code
""", 0o755)

    def start(self, *command, prefix=()):
        log = open(self.folder / f"{Path(command[0]).name}.{len(self.processes)}.out", "wb")
        with log:
            self.processes.append(subprocess.Popen([*prefix, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   env=self.environment, start_new_session=True))

    def make_files(self):
        host = socket.gethostname().split(".")[0]
        port, *nodes = free_ports(4)
        self.write("slurm.conf", CONF.format(folder=self.folder, host=host, port=port,
                                             **{f"n{i + 1}": value for i, value in enumerate(nodes)}))
        self.write("cgroup.conf", "CgroupAutomount=no\n")
        self.write("munge.key", os.urandom(64).hex() * 2, 0o400)
        (self.folder / "state").mkdir()
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "dlprobe").symlink_to(DLPROBE)
        self.write("bin/logger", f'#!/bin/sh\necho "$*" >>{self.folder}/syslog\n', 0o755)
        self.wrapper("prolog", "gate-node.sh")
        self.wrapper("health", "gate-node.sh")
        self.wrapper("epilog", "epilog.sh")
        # On n3 this shadows the program: there is a file, and it cannot be executed.
        self.write("no-dlprobe", "")

    def begin(self):
        self.make_files()
        self.start("munged", "--foreground", f"--key-file={self.folder}/munge.key", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed")
        wait_for("munged's socket", lambda: (self.folder / "munge.socket").exists(), self.logs)
        self.start("slurmctld", "-D", "-c")
        wait_for("slurmctld answers", lambda: self.run("scontrol", "ping").returncode == 0, self.logs)
        setups = {"n1": "size=1g", "n2": "size=16m",
                  "n3": f"size=1g && mount --bind {self.folder}/no-dlprobe {os.path.realpath(DLPROBE)}"}
        for node, setup in setups.items():
            script = f'mount -t tmpfs tmpfs /dev/shm -o {setup} && exec "$0" "$@"'
            # n2 and n3 see their own processes only, as machines do. On n1 dlprobe sees who has a file of /dev/shm open.
            namespaces = ("-m",) if node == "n1" else ("-m", "-p", "--fork", "--kill-child", "--mount-proc")
            self.start("slurmd", "-D", "-N", node, prefix=("unshare", *namespaces, "sh", "-c", script))
            self.slurmd[node] = self.processes[-1].pid
            if node != "n1":
                children = Path(f"/proc/{self.slurmd[node]}/task/{self.slurmd[node]}/children")
                self.slurmd[node] = int(wait_for(f"slurmd of {node}", children.read_text))
        wait_for("three nodes that are up", lambda: not {"unk", "down", "down*", "unk*"} & set(self.states()), self.logs)

    def states(self):
        return self.run("sinfo", "-h", "-N", "-o", "%t").stdout.split() or ["unk"]

    def run(self, *command, env_extra=None, **options):
        return subprocess.run([str(word) for word in command], env=self.environment | (env_extra or {}), capture_output=True, text=True, timeout=LIMIT, check=False,
                              **options)

    def on_node(self, name, *command):
        """The command line in what that node has for a file system."""
        return ("nsenter", f"--target={self.slurmd[name]}", "--mount", "--pid", *command)

    def node(self, name):
        """(state, reason) of that node."""
        text = self.run("scontrol", "-o", "show", "node", name).stdout
        reason = re.search(r"Reason=(.*?)(?: \[\w+@|$)", text)
        return re.search(r" State=(\S+)", text).group(1), reason.group(1) if reason else ""

    def resume(self, *names):
        for name in names:
            self.run("scontrol", "update", f"nodename={name}", "state=resume")

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-1000:]}"
                         for path in sorted(self.folder.iterdir()) if path.suffix in (".log", ".out"))

    def submit(self, *arguments):
        """The id of the job."""
        done = self.run("sbatch", "--parsable", *map(str, arguments), cwd=self.folder)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout.strip()

    def job(self, job_id):
        """What scontrol knows of it, by name."""
        return dict(re.findall(r"(\w+)=(\S+)", self.run("scontrol", "-o", "show", "job", job_id).stdout))

    def end_of(self, job_id):
        ended = {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"}
        return wait_for(f"the end of job {job_id}", lambda: (job := self.job(job_id)).get("JobState") in ended and job,
                        lambda: f"{self.job(job_id)}\n{self.logs()}")

    def end(self):
        for pid in self.slurmd.values():  # what it has started ends with it
            os.kill(pid, signal.SIGKILL)
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)


# Leaves a segment as PyTorch names them, by a process that is dead when the job ends.
LEAVES_A_SEGMENT = """#!/bin/sh
sh -c 'head -c 4194304 /dev/zero >/dev/shm/torch_$$_1_0'
"""

# A trainer whose worker waits for itself, on n3 alone; both say when they are there.
HANGS = """
import multiprocessing, os, pathlib, sys, threading

def work(batches, answers):
    if os.environ["SLURMD_NODENAME"] == "n3":
        lock = threading.Lock()
        lock.acquire()
        pathlib.Path("standing.n3").touch()
        lock.acquire()
    pathlib.Path("standing.n2").touch()
    while True:
        answers.put(batches.get())

if __name__ == "__main__":
    batches, answers = multiprocessing.Queue(), multiprocessing.Queue()
    multiprocessing.Process(target=work, args=(batches, answers)).start()
    while True:
        batches.put(bytes(1000))
        answers.get()
"""

# Four ranks, two on each node; rank 3 sleeps, the others wait for it in a collective.
RANKS = """
import os, pathlib, time, torch, torch.distributed as dist

rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/rendezvous", rank=rank, world_size=world)
ones = torch.ones(4)
dist.all_reduce(ones)
pathlib.Path(f"ready.{rank}").touch()
if rank == 3:
    time.sleep(600)
dist.all_reduce(ones)
"""


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = missing()
        if reason:
            raise unittest.SkipTest(reason)
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.end)
        cls.cluster.begin()
        cls.cluster.environment["PATH"] = f"{cls.cluster.folder}/bin:{os.environ['PATH']}"

    def text(self, name):
        path = self.cluster.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def switch(self, name, on):
        marker = self.cluster.folder / f"{name}.off"
        if on:
            marker.unlink(missing_ok=True)
        else:
            marker.touch()

    def drained(self, node):
        """Its reason, when it is drained."""
        return wait_for(f"{node} is drained", lambda: "DRAIN" in self.cluster.node(node)[0] and self.cluster.node(node)[1],
                        self.cluster.logs)

    def test_1_the_health_check_drains_the_sick_node_alone(self):
        self.assertRegex(self.drained("n2"), "^DLP0101 shm-too-small: .{10,60}$")
        wait_for("the health check of n3", lambda: "n3 job none" in self.text("health.out"), self.cluster.logs)
        self.assertIn("n1 job none exit 0", self.text("health.out"))
        self.assertIn("n3 job none exit 0", self.text("health.out"))
        # Where dlprobe cannot be run nothing is known of the node.
        self.assertRegex(self.text("syslog"), r"n3: not checked \(exit code 126\)")
        self.assertEqual([self.cluster.node(node)[0] for node in ("n1", "n3")], ["IDLE", "IDLE"])

    def test_2_the_prolog_sends_the_job_to_another_node(self):
        self.cluster.resume("n2")
        self.cluster.write("where", "#!/bin/sh\necho $SLURMD_NODENAME\n", 0o755)
        # n2 has the lowest weight: it is the first choice.
        job = self.cluster.submit("-N1", "-o", "where.out", self.cluster.folder / "where")
        self.assertRegex(self.drained("n2"), "^DLP0101 shm-too-small: ")
        self.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now")
        self.assertEqual(self.cluster.end_of(job)["JobState"], "COMPLETED")
        self.assertEqual(self.text("where.out"), "n1\n")

    def test_3_an_administrators_reason_stays(self):
        self.cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=disk is being replaced")
        done = self.cluster.run(*self.cluster.on_node("n2", self.cluster.folder / "health"), env_extra={"SLURMD_NODENAME": "n2"})
        self.assertEqual((done.returncode, self.cluster.node("n2")[1]), (1, "disk is being replaced"))

    def job_on_all(self, *arguments):
        """(the finished job, its output, its folder of reports) of job.sh on the three nodes."""
        self.switch("prolog", on=False)
        self.addCleanup(self.switch, "prolog", on=True)
        self.cluster.resume("n1", "n2", "n3")
        job = self.cluster.submit("-N3", "-o", "job.out", "--export=ALL,WORKERS=1,BATCH=16", RECIPES / "job.sh", *arguments)
        ended = self.cluster.end_of(job)
        return ended, self.text("job.out"), self.cluster.folder / f"dlprobe-{job}.0"

    def test_4_the_job_names_the_sick_node_and_the_silent_one(self):
        job, output, reports = self.job_on_all("touch", self.cluster.folder / "trained")
        self.assertEqual((job["JobState"], job["ExitCode"]), ("FAILED", "1:0"), output)
        self.assertFalse((self.cluster.folder / "trained").exists())
        self.assertEqual(sorted(path.name for path in reports.glob("*.json")), ["n1.json", "n2.json"])
        verdicts = {path.stem: json.loads(path.read_text())["summary"]["verdict"] for path in reports.glob("*.json")}
        self.assertEqual((verdicts["n1"] in ("pass", "warn"), verdicts["n2"]), (True, "fail"))
        self.assertRegex(output, r"Found +DLP0101 shm-too-small: .*16\.0 MiB\n(.*\n)+?On +n2\n")
        self.assertIn("no report of 1 node: n3", output)
        self.assertIn("n2", (reports / "cluster.html").read_text())

    def test_5_the_mended_nodes_train(self):
        subprocess.run(self.cluster.on_node("n2", "mount", "-o", "remount,size=1g", "/dev/shm"), check=True)
        subprocess.run(self.cluster.on_node("n3", "umount", os.path.realpath(DLPROBE)), check=True)
        job, output, reports = self.job_on_all("sh", "-c", f"touch {self.cluster.folder}/trained.$SLURMD_NODENAME")
        self.assertEqual(job["JobState"], "COMPLETED", output)
        self.assertEqual(len(list(self.cluster.folder.glob("trained.*"))), 3, output)
        self.assertEqual(len(list(reports.glob("*.json"))), 3)

    def test_5_then_a_step_may_end_as_if_by_sigusr1(self):
        job, output, _ = self.job_on_all("sh", "-c", "exit 138")
        self.assertEqual((job["JobState"], job["ExitCode"]), ("FAILED", "138:0"), output)

    def leave_behind(self, script):
        """What the epilog of a job of another user says."""
        self.cluster.write("left.sh", script, 0o755)
        before = self.text("syslog")
        job = self.cluster.submit("--uid=65534", "-N1", "-w", "n1", "-D", "/", "-o", "/dev/null", self.cluster.folder / "left.sh")
        self.assertEqual(self.cluster.end_of(job)["JobState"], "COMPLETED")
        wait_for("the epilog", lambda: f"n1 job {job} exit 0" in self.text("epilog.out"), self.cluster.logs)
        return job, self.text("syslog").removeprefix(before)

    def held_segment(self):
        """A segment of that user which a process still uses, named by its pid."""
        script = "echo $$; head -c 4194304 /dev/zero >/dev/shm/torch_$$_2_0; exec 9</dev/shm/torch_$$_2_0; echo made; read end"
        holder = subprocess.Popen(self.cluster.on_node("n1", "setpriv", "--reuid=65534", "sh", "-c", script),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.stdin.close)
        pid = holder.stdout.readline().strip()
        self.assertEqual(holder.stdout.readline(), "made\n")
        return f"torch_{pid}_2_0"

    def segments(self):
        return subprocess.run(self.cluster.on_node("n1", "ls", "/dev/shm"), capture_output=True, text=True,
                              check=True).stdout.split()

    def test_6_the_epilog_tells_what_a_job_left(self):
        held = self.held_segment()
        job, said = self.leave_behind("#!/bin/sh\ntrue\n")
        self.assertNotIn("stale", said)
        job, said = self.leave_behind(LEAVES_A_SEGMENT)
        self.assertIn(f"job {job} of uid 65534: stale files in /dev/shm", said, self.cluster.logs())
        report = re.search(r"render (\S+)", said).group(1)
        finding = json.loads(Path(report).read_text())["findings"][0]
        self.assertEqual(finding["code"], "DLP0103")
        self.assertNotIn(held, json.dumps(finding))
        self.assertEqual(len(self.segments()), 2, "it removes nothing")

    def test_7_a_job_that_hangs(self):
        self.cluster.write("hangs.py", HANGS)
        self.cluster.write("hangs.sh", f"#!/bin/bash\nsrun {sys.executable} hangs.py\n", 0o755)
        job = self.cluster.submit("-N2", "-w", "n2,n3", "-o", "hangs.out", self.cluster.folder / "hangs.sh")
        wait_for("both tasks", lambda: all((self.cluster.folder / f"standing.{node}").exists() for node in ("n2", "n3")),
                 lambda: f"{self.text('hangs.out')}\n{self.cluster.logs()}")
        self.addCleanup(self.cluster.run, "scancel", job)
        done = self.cluster.run(RECIPES / "hang.sh", job, cwd=self.cluster.folder)
        reports = {path.stem: json.loads(path.read_text())
                   for path in (self.cluster.folder / f"dlprobe-hang-{job}").glob("*.json")}
        self.assertEqual(set(reports), {"n2", "n3"}, done.stdout + done.stderr)
        self.assertEqual([finding["code"] for finding in reports["n3"]["findings"]][:1], ["DLP0303"], done.stdout)
        self.assertNotIn("DLP0303", json.dumps(reports["n2"]["findings"]))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"Found +DLP0303 lock-cycle: .*\n(.*\n)+?On +n3\n")

    @unittest.skipUnless(has_torch(), NEEDS_TORCH)
    def test_8_ranks_of_two_nodes(self):
        self.cluster.write("ranks.py", RANKS)
        job = self.cluster.submit("-N2", "-w", "n2,n3", "-o", "ranks.out", "--export=ALL,WORKERS=1,BATCH=16", RECIPES / "job.sh",
                                  "--overcommit", "-n4", TORCH_PYTHON, "ranks.py")
        self.addCleanup(self.cluster.run, "scancel", job)
        wait_for("four ranks", lambda: len(list(self.cluster.folder.glob("ready.*"))) == 4,
                 lambda: f"{self.text('ranks.out')}\n{self.cluster.logs()}")
        # As Slurm does it before the time limit.
        self.cluster.run("scancel", "--batch", "--signal=USR1", job)
        folder = self.cluster.folder / f"dlprobe-{job}.0"
        wait_for("the merged report", (folder / "hang.html").exists, lambda: self.text("ranks.out"))
        reports = {path.stem: json.loads(path.read_text()) for path in (folder / "hang").glob("*.json")}
        ranks = {node: sorted(process["rank"] for process in report["processes"] if process.get("rank") is not None)
                 for node, report in reports.items()}
        self.assertEqual(ranks, {"n2": [0, 1], "n3": [2, 3]}, self.text("ranks.out"))
        self.assertRegex(self.text("ranks.out"), r"DLP0702 rank-behind: rank 3 \(n3,")
        self.assertEqual(self.cluster.job(job)["JobState"], "RUNNING")


if __name__ == "__main__":
    unittest.main()
