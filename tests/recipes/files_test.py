"""The files of tools/recipes, each by the validator of its kind, and what they run, as their host would run it."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import DLPROBE, HAS_LOADER, NEEDS_TORCH, NEEDS_UNSHARE, TIMEOUT, TORCH_PYTHON, can_unshare, has_torch, small_shm

RECIPES = Path(os.environ["DLPROBE_RECIPES"])
VALIDATORS = Path(os.environ.get("DLPROBE_VALIDATORS", "")) / "bin"
NO_VALIDATORS = "needs kubernetes-validate and check-jsonschema in build/pip-tools: tools/check --full"
NO_LOADER = "the reference loader was not built (needs libtorch and OpenCV)"
NO_SYSTEMD = "needs systemd-analyze: apt-get install systemd"

# Under the main guard, and a lambda for which spawn has no use.
TRAIN = """from torch.utils.data import DataLoader
for batch in DataLoader(list(range(8)), num_workers=2, collate_fn=lambda items: items):
    print(batch)
"""

# A worker that waits for itself, and a trainer that waits for its batch.
HANGS = """import multiprocessing, threading

def work(batches):
    lock = threading.Lock()
    lock.acquire()
    print("standing", flush=True)
    lock.acquire()
    batches.put(1)

if __name__ == "__main__":
    batches = multiprocessing.Queue()
    multiprocessing.Process(target=work, args=(batches,)).start()
    batches.get()
"""
# Two ranks; rank 1 sleeps where the other waits for it.
RANKS = """import os, time, torch, torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/rendezvous", rank=rank, world_size=2)
ones = torch.ones(4)
dist.all_reduce(ones)
print("standing", flush=True)
if rank == 1:
    time.sleep(600)
dist.all_reduce(ones)
"""
# What containers may do where nobody says more.
CONTAINER = ("-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,"
             "+mknod,+audit_write,+setfcap")


def yaml_of(name):
    """The documents of a YAML file."""
    done = subprocess.run(["/usr/bin/python3", "-c", "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"],
                          input=(RECIPES / name).read_text(), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def seconds(text):
    """Of a duration as Go writes it, of one unit."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


class Recipe(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "dlprobe").symlink_to(DLPROBE)
        # What a step installs is there already.
        self.program("pip", 'echo "pip $*" >>pip.log')
        self.program("python", 'exec /usr/bin/python3 "$@"')
        (self.folder / "train.py").write_text(TRAIN)

    def program(self, name, body):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run_here(self, *command, shm="1g", **environment):
        """In the test's folder, with a /dev/shm of that size."""
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", **environment}
        prefix = ("unshare", "-m", "sh", "-c", small_shm(shm) + ' && exec "$0" "$@"') if can_unshare() else ()
        return subprocess.run([*prefix, *map(str, command)], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def validate(self, program, *arguments):
        done = subprocess.run([VALIDATORS / program, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Kubernetes(Recipe):
    @unittest.skipUnless((VALIDATORS / "kubernetes-validate").exists(), NO_VALIDATORS)
    def test_the_manifest_by_the_schema_of_kubernetes(self):
        self.validate("kubernetes-validate", "--strict", RECIPES / "kubernetes/job.yaml")

    def test_the_init_container_runs(self):
        pod = yaml_of("kubernetes/job.yaml")[0]["spec"]["template"]["spec"]
        gate, train = pod["initContainers"][0], pod["containers"][0]
        # What one container has proves nothing of another one.
        self.assertEqual((gate["resources"], gate["volumeMounts"]), (train["resources"], train["volumeMounts"]))
        arguments = [word.replace("/reports/", f"{self.folder}/").replace("/dev/termination-log", f"{self.folder}/log")
                     for word in gate["args"]] + ["--level=quick"]
        done = self.run_here("dlprobe", *arguments, NODE_NAME="gpu-7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads((self.folder / "gate.json").read_text())["host"]["node"], "gpu-7")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_the_termination_log(self):
        """The kubelet mounts a file over /dev/termination-log, in a folder that the container may not write to."""
        setup = """mkdir dev && echo old >log && chmod 666 log && mount -t tmpfs -o mode=755 tmpfs dev && touch dev/log
                   mount --bind log dev/log
                   "$@" -q dlprobe gate --level quick --workers 1 -f npd=dev/log; code=$?; cat dev/log; ls dev; exit $code"""
        for user in (["env"], ["setpriv", "--reuid=65534", "--clear-groups", "env"]):
            shutil.rmtree(self.folder / "dev", ignore_errors=True)
            (self.folder / "log").unlink(missing_ok=True)
            self.folder.chmod(0o755)
            done = self.run_here("sh", "-c", setup.replace('"$@" -q', '"$@"'), "sh", *user)
            lines = done.stdout.splitlines()
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertRegex(lines[-2], "^(ok: |DLP)")
            self.assertEqual(lines[-1], "log", "nothing else is left there")

    def test_node_problem_detector(self):
        """As its CustomPluginConfig.Validate() and its runner of plugins have it (pkg/custompluginmonitor)."""
        config = json.loads((RECIPES / "kubernetes/node-problem-detector.json").read_text())
        self.assertEqual(set(config) - {"plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"}, set())
        self.assertEqual(config["plugin"], "custom")
        overall = config["pluginConfig"]
        self.assertEqual(set(overall) - {"invoke_interval", "timeout", "max_output_length", "concurrency",
                                         "enable_message_change_based_condition_update", "skip_initial_status"}, set())
        conditions = [condition["type"] for condition in config["conditions"]]
        for rule in config["rules"]:
            self.assertLessEqual(seconds(rule["timeout"]), seconds(overall["timeout"]))
            self.assertLess(seconds(rule["timeout"]), seconds(overall["invoke_interval"]))
            self.assertIn(rule["condition"], conditions)
            self.assertEqual(Path(rule["path"]).name, "dlprobe")
            deadline = rule["args"][rule["args"].index("--deadline") + 1]
            self.assertLess(seconds(deadline), seconds(rule["timeout"]))
        rule = config["rules"][0]
        self.assertEqual(self.run_here("dlprobe", *rule["args"]).returncode, 0)
        if can_unshare():
            done = self.run_here("dlprobe", *rule["args"], shm="16m")
            self.assertEqual((done.returncode, done.stderr), (1, ""))
            self.assertTrue(done.stdout.startswith("DLP0101 ") and done.stdout.isascii())
            self.assertLessEqual(len(done.stdout), overall["max_output_length"])

    def test_the_debug_container(self):
        self.program("kubectl", 'echo "$*"')
        done = self.run_here(RECIPES / "kubernetes/debug.sh", "train-x7", "train", "-q")
        self.assertEqual(done.stdout.strip(), "debug train-x7 --target=train --profile=general "
                         "--image=registry.example/dlprobe:stable --stdin --tty -- dlprobe attach 1 -q")
        self.assertEqual(self.run_here(RECIPES / "kubernetes/debug.sh").returncode, 1)

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_debug_container_names_the_cause(self):
        """As containerd would make them: the trainer is process 1, and the debug container has its processes, not its files."""
        (self.folder / "hangs.py").write_text(HANGS)
        trainer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                                    f"exec {sys.executable} hangs.py"], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.addCleanup(trainer.wait)
        self.addCleanup(trainer.stdout.close)
        self.addCleanup(trainer.kill)
        self.assertEqual(trainer.stdout.readline(), "standing\n")
        first = Path(f"/proc/{trainer.pid}/task/{trainer.pid}/children").read_text().split()[0]
        for capabilities, code, text in ((CONTAINER + ",+sys_ptrace", 1, "DLP0303"), (CONTAINER, 3, "SYS_PTRACE")):
            setup = "mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm"
            done = self.run_here("nsenter", f"--target={first}", "--pid", "unshare", "-m", "sh", "-c",
                                 f"{setup} && exec setpriv --bounding-set={capabilities} --inh-caps=-all dlprobe attach 1")
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn(text, done.stdout + done.stderr)


    @unittest.skipUnless(can_unshare() and has_torch(), NEEDS_TORCH if can_unshare() else NEEDS_UNSHARE)
    def test_ranks_in_two_pods(self):
        (self.folder / "ranks.py").write_text(RANKS)
        pods = []
        for rank in (0, 1):
            pod = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "sh", "-c",
                                    f"hostname train-{rank} && exec {TORCH_PYTHON} ranks.py"],
                                   cwd=self.folder, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "train-0",
                                        "MASTER_PORT": "23456"})
            for undo in (pod.wait, pod.stdout.close, pod.kill):
                self.addCleanup(undo)
            pods.append(pod)
        for pod in pods:
            self.assertEqual(pod.stdout.readline(), "standing\n")
        first = [Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()[0] for pod in pods]
        self.program("kubectl", f"""[ "$1" = get ] && printf 'pod/train-%d\\n' 0 1 && exit
case $2 in pod/train-0) first={first[0]} ;; *) first={first[1]} ;; esac
[ "$3 $4 $5" = "-c pytorch --" ] || exit 1
shift 5
exec nsenter --target=$first --pid --mount --uts "$@"
""")
        done = self.run_here(RECIPES / "kubernetes/hang.sh", "training.kubeflow.org/job-name=train", "pytorch")
        reports = {path.stem: json.loads(path.read_text()) for path in (self.folder / "dlprobe-hang").glob("*.json")}
        ranks = {node: {each["rank"] for each in report["processes"] if "rank" in each} for node, report in reports.items()}
        self.assertEqual(ranks, {"train-0": {0}, "train-1": {1}}, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"DLP0702 rank-behind: rank 1 ")


class Ci(Recipe):
    def steps(self):
        """The shell steps of the GitHub workflow by name."""
        return {step["name"]: step["run"] for step in yaml_of("ci/github.yml")[0]["jobs"]["gate"]["steps"] if "run" in step}

    def github(self, name, **options):
        # As the runner does: a file, by `bash -e`.
        (self.folder / "step.sh").write_text(self.steps()[name])
        return self.run_here("bash", "-e", "step.sh", GITHUB_STEP_SUMMARY=str(self.folder / "summary.md"), **options)

    @unittest.skipUnless((VALIDATORS / "check-jsonschema").exists(), NO_VALIDATORS)
    def test_the_schemas_of_both_hosts(self):
        self.validate("check-jsonschema", "--builtin-schema", "vendor.github-workflows", RECIPES / "ci/github.yml")
        self.validate("check-jsonschema", "--builtin-schema", "vendor.gitlab-ci", RECIPES / "ci/gitlab.yml")

    @unittest.skipUnless(HAS_LOADER, NO_LOADER)
    def test_github_on_a_fit_runner(self):
        self.assertEqual(self.github("install", DLPROBE_PACKAGE="dlprobe.whl").returncode, 0)
        self.assertEqual((self.folder / "pip.log").read_text(), "pip install dlprobe.whl\n")
        done = self.github("gate")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(all(line.startswith(("::notice ", "::warning ")) for line in done.stdout.splitlines()), done.stdout)
        self.assertIn("dlprobe", (self.folder / "summary.md").read_text())

    @unittest.skipUnless(HAS_LOADER and can_unshare(), NO_LOADER if can_unshare() else NEEDS_UNSHARE)
    def test_github_on_an_unfit_runner(self):
        done = self.github("gate", shm="4m")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("::error title=DLP0101 shm-too-small::", done.stdout)
        self.assertIn("DLP0101", (self.folder / "summary.md").read_text(), "the page of the run has it though the step failed")

    def test_github_the_script(self):
        done = self.github("script")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("::warning file=train.py,line=2,title=DLP0401 ", done.stdout)
        places = [result["locations"][0]["physicalLocation"]
                  for result in json.loads((self.folder / "dlprobe.sarif").read_text())["runs"][0]["results"]]
        self.assertIn(("train.py", 2), [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places])

    @unittest.skipUnless(HAS_LOADER, NO_LOADER)
    def test_gitlab(self):
        jobs = yaml_of("ci/gitlab.yml")[0]
        for name in ("loader:gate", "loader:script"):
            script = "\n".join(jobs[".dlprobe"]["before_script"] + jobs[name]["script"])
            done = self.run_here("bash", "-eo", "pipefail", "-c", script, DLPROBE_PACKAGE="x")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for file in jobs[name]["artifacts"]["reports"].values():
                self.assertTrue((self.folder / file).stat().st_size, file)
        issues = json.loads((self.folder / "gl-code-quality.json").read_text())
        self.assertIn(("train.py", 2), [(issue["location"]["path"], issue["location"]["lines"]["begin"]) for issue in issues])

    @unittest.skipUnless(HAS_LOADER, NO_LOADER)
    def test_jenkins(self):
        text = (RECIPES / "ci/Jenkinsfile").read_text()
        self.assertEqual(text.count("{"), text.count("}"))
        steps = re.findall(r"^\s*sh '(.*)'$", text, re.MULTILINE)
        self.assertEqual(len(steps), 2)
        for step in steps:
            self.assertEqual(self.run_here("sh", "-xe", "-c", step, DLPROBE_PACKAGE="x").returncode, 0)
        for file in re.findall(r"'(gate\.\w+)'", text):
            self.assertTrue((self.folder / file).stat().st_size, file)


class Systemd(Recipe):
    def unit(self, suffix, **replaced):
        """A copy of the unit with this test's paths; returns its path."""
        text = (RECIPES / f"systemd/dlprobe-gate.{suffix}").read_text()
        for old, new in replaced.items():
            text = text.replace(old, new)
        path = self.folder / f"dlprobe-gate.{suffix}"
        path.write_text(text)
        return path

    @unittest.skipUnless(shutil.which("systemd-analyze"), NO_SYSTEMD)
    def test_the_units(self):
        units = [self.unit("service", **{"ExecStart=dlprobe": f"ExecStart={DLPROBE}"}), self.unit("timer")]
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=TIMEOUT,
                              check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_the_commands_of_the_service(self):
        (self.folder / "dlprobe").mkdir()
        collector = self.folder / "collector"
        collector.mkdir()
        text = self.unit("service", **{"%t": str(self.folder), "/var/lib/prometheus/node-exporter": str(collector)}).read_text()
        for command in re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE):
            done = self.run_here("sh", "-c", command)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in collector.iterdir()], ["dlprobe.prom"])
        metrics = collector / "dlprobe.prom"
        self.assertEqual(stat.S_IMODE(metrics.stat().st_mode), 0o644, "node_exporter is another user")
        # Every metric that an alert asks for is there.
        names = set(re.findall(r"^(dlprobe_\w+)[{ ]", metrics.read_text(), re.MULTILINE))
        rules = [rule for group in yaml_of("systemd/alerts.yml")[0]["groups"] for rule in group["rules"]]
        asked = set(re.findall(r"dlprobe_\w+", " ".join(rule["expr"] for rule in rules)))
        self.assertEqual((asked - names, len(rules)), (set(), 2))
        if shutil.which("promtool"):
            for command, file in (("metrics", metrics), ("rules", RECIPES / "systemd/alerts.yml")):
                with open(file, "rb") as text:
                    done = subprocess.run(["promtool", "check", command, *([] if command == "metrics" else [file])], stdin=text,
                                          capture_output=True, text=True, timeout=TIMEOUT, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Scripts(unittest.TestCase):
    def test_each_can_be_executed(self):
        scripts = sorted(RECIPES.rglob("*.sh"))
        self.assertGreater(len(scripts), 5)
        self.assertEqual([path.name for path in scripts if not os.access(path, os.X_OK)], [])


if __name__ == "__main__":
    unittest.main()
