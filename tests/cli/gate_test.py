"""The gate on real limits: each check fails where its cause is there, and passes where it is not."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from hung_folder import NEEDS_FUSE, can_mount, hung_folder
from support import DLPROBE, HAS_LOADER, NEEDS_UNSHARE, TIMEOUT, can_unshare, dlprobe, in_private_shm, report_of, small_shm

NO_LOADER = "the reference loader was not built (needs libtorch and OpenCV)"
PIDS = Path("/sys/fs/cgroup/pids")


def checks_of(report):
    return {check["id"]: check["status"] for check in report["checks"]}


def quick(*arguments, **options):
    return report_of("gate", "--level", "quick", *arguments, **options)


class Quick(unittest.TestCase):
    def test_a_machine_on_which_nothing_is_wrong(self):
        report = quick("--workers", "1", "--data", "/usr/include")
        checks = checks_of(report)
        self.assertGreater(len(checks), 12)
        self.assertEqual(report["invocation"]["exit_code"], 0, report["summary"])
        self.assertEqual(checks.pop("loader.fork.file_descriptor"), "skipped")
        # Of an interpreter that nobody named, and of what other users' processes may have open.
        for name in [each for each in checks if each.startswith("python.")] + ["shm.left-overs"]:
            self.assertIn(checks.pop(name), {"pass", "warn", "skipped"}, name)
        self.assertEqual(set(checks.values()) - {"warn"}, {"pass"}, checks)

    def test_a_data_folder_that_is_not_there(self):
        done = dlprobe("gate", "--level", "quick", "--data", "/nowhere/at/all")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"DLP0607", done.stdout)

    def test_a_data_folder_without_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(checks_of(quick("--data", folder))["host.data-folder"], "fail")
            inner = Path(folder) / "train"
            inner.mkdir()
            (inner / "a.png").write_bytes(b"x")
            self.assertEqual(checks_of(quick("--data", folder))["host.data-folder"], "pass")

    def test_data_under_folders_beside_what_is_not_for_us(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "train/n01440764").mkdir(parents=True)
            (Path(folder) / ".cache").mkdir()
            (Path(folder) / "lost+found").mkdir(mode=0)
            self.assertEqual(checks_of(quick("--data", folder))["host.data-folder"], "fail")
            (Path(folder) / "train/n01440764/a.JPEG").write_bytes(b"x")
            self.assertEqual(checks_of(quick("--data", folder))["host.data-folder"], "pass")
            os.chmod(folder, 0o755)
            done = dlprobe("gate", "--level", "quick", "--json", "--data", folder, user=65534 if os.geteuid() == 0 else None)
            self.assertEqual(checks_of(json.loads(done.stdout))["host.data-folder"], "pass", done.stderr)

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_dev_shm_on_a_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            if subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, check=True).stdout == b"tmpfs\n":
                self.skipTest("the temporary folder is a tmpfs: TMPDIR=/a/folder/on/a/disk")
            done = in_private_shm(f"mount --bind {folder} /dev/shm", ["gate", "--level", "quick", "--json"])
        report = json.loads(done.stdout)
        self.assertEqual(checks_of(report)["shm.size"], "warn")
        self.assertIn("DLP0110", [finding["code"] for finding in report["findings"]])

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_dev_shm_that_cannot_be_written_to(self):
        done = in_private_shm("mount -t tmpfs -o ro tmpfs /dev/shm", ["gate", "--level", "quick", "--json"])
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, checks_of(report)["shm.writable"]), (1, "fail"), report["summary"])
        self.assertEqual(report["findings"][0]["code"], "DLP0109")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    @unittest.skipUnless(HAS_LOADER, NO_LOADER)
    def test_what_a_suppressed_finding_kept_from_being_tried_is_no_pass(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "dlprobe.toml"
            for text in ('[[suppress]]\ncode = "DLP0101"\nreason = "r"\nuntil = "never"\n',
                         '[findings.DLP0101]\nseverity = "warning"\n'):
                config.write_text(text, encoding="utf-8")
                done = in_private_shm(small_shm("16m"), ["gate", "--json", "--workers", "8", "--config", config])
                report = json.loads(done.stdout)
                self.assertEqual((done.returncode, report["summary"]["verdict"]), (3, "incomplete"), report["summary"])
                self.assertEqual(checks_of(report)["loader.fork.file_descriptor"], "incomplete")

    def test_a_temporary_folder_that_is_not_there(self):
        environment = dict(os.environ, TMPDIR="/nowhere/at/all")
        report = quick(env=environment)
        self.assertEqual(checks_of(report)["host.temporary-folder"], "fail")
        self.assertIn("DLP0608", json.dumps(report["findings"]))

    def test_nothing_is_left_in_the_temporary_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            quick(env=dict(os.environ, TMPDIR=folder))
            self.assertEqual(os.listdir(folder), [])

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_small_dev_shm(self):
        done = in_private_shm(small_shm("16m"), ["gate", "--level", "quick", "--json", "--workers", "8"])
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, checks_of(report)["shm.size"]), (1, "fail"))
        self.assertEqual(report["findings"][0]["code"], "DLP0101")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_full_temporary_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            done = in_private_shm(f"mount -t tmpfs -o size=1m tmpfs {folder}", ["gate", "--level", "quick", "--json"],
                                  env=dict(os.environ, TMPDIR=folder))
        self.assertEqual(checks_of(json.loads(done.stdout))["host.temporary-folder"], "warn")

    def test_a_limit_of_open_files(self):
        done = subprocess.run(["prlimit", "--nofile=24:24", DLPROBE, "gate", "--level", "quick", "--workers", "16", "--json"],
                              capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(checks_of(json.loads(done.stdout))["limits.open-files"], "fail", done.stderr)

    @unittest.skipUnless(os.cpu_count() > 1, "needs two CPUs")
    def test_one_cpu_of_several(self):
        done = subprocess.run(["taskset", "-c", "0", DLPROBE, "gate", "--level", "quick", "--workers", "4", "--json"],
                              capture_output=True, timeout=TIMEOUT, check=False)
        report = json.loads(done.stdout)
        self.assertEqual(checks_of(report)["cpu.usable"], "warn")
        self.assertEqual(report["summary"]["verdict"], "warn")

    @unittest.skipUnless(os.access(PIDS, os.W_OK), "needs a pids cgroup (v1) that may be written to: run as root")
    def test_a_limit_of_processes(self):
        group = PIDS / f"dlprobe-gate-{os.getpid()}"
        group.mkdir()
        try:
            (group / "pids.max").write_text("12")
            command = f'echo $$ > {group}/cgroup.procs; exec "$0" gate --level quick --workers 4 --json'
            done = subprocess.run(["sh", "-c", command, DLPROBE], capture_output=True, timeout=TIMEOUT, check=False)
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
        self.assertEqual(checks_of(json.loads(done.stdout))["limits.processes"], "fail")

    @unittest.skipUnless(os.geteuid() == 0, "the limit holds no root, and only root can become another user: run as root")
    def test_where_not_even_dlprobe_may_start_a_thread(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = shutil.copy(DLPROBE, folder)
            command = ["setpriv", "--reuid=65533", "--clear-groups", "prlimit", "--nproc=1:1", program, "gate", "--level", "quick", "--json"]
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
        report = json.loads(done.stdout or "{}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(checks_of(report)["limits.processes"], "fail")

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_nothing_is_left_for_process_1_to_reap(self):
        program = ("import os, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
                   "print([name for name in os.listdir('/proc') if name.isdigit() and name != '1'])")
        done = subprocess.run(["unshare", "-pf", "--mount-proc", sys.executable, "-c", program, DLPROBE, "gate", "--level", "quick"],
                              capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, b"[]"), done.stderr)

    def test_without_a_reference_loader_the_rest_is_told(self):
        done = dlprobe("gate", "--json", "--workers", "1", env=dict(os.environ, DLPROBE_REFERENCE_LOADER="/nowhere/loader"))
        report = json.loads(done.stdout)
        checks = checks_of(report)
        self.assertEqual((done.returncode, checks.pop("loader.fork.file_descriptor")), (3, "incomplete"), report["summary"])
        self.assertLessEqual(set(checks.values()), {"pass", "warn", "skipped"})
        self.assertIn("/nowhere/loader", report["summary"]["headline"])

    def test_bad_input(self):
        for arguments in (["--deadline", "soon"], ["--deadline", "1us"], ["--data", ""], ["--level", "deep"], ["--", "sleep", "1"],
                          ["-f", "html=/nowhere/x.html"], ["--workers", "many"]):
            done = dlprobe("gate", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
            self.assertTrue(done.stderr.startswith(b"dlprobe: "), arguments)

    @unittest.skipUnless(HAS_LOADER, NO_LOADER)
    def test_a_loader_that_the_reference_loader_refuses_has_a_report(self):
        # More than four fifths of the memory, less than all of it.
        available = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
        side = int((available * 1024 * 0.9 / 5 / 12) ** 0.5)
        done = dlprobe("gate", "--json", "--workers", "2", "--batch-size", "1", "--sample-shape", f"3x{side}x{side}")
        report = json.loads(done.stdout)
        self.assertIn((done.returncode, checks_of(report)["loader.fork.file_descriptor"]), {(3, "incomplete"), (1, "incomplete")})

    def test_a_deadline_that_nothing_can_meet_is_no_verdict(self):
        done = dlprobe("gate", "--deadline", "1ms", "--json") if HAS_LOADER else None
        if done:
            report = json.loads(done.stdout)
            self.assertEqual((done.returncode, report["summary"]["verdict"]), (3, "incomplete"))

    def test_exit_codes_of_nagios(self):
        def code(*arguments):
            return dlprobe("gate", "--level", "quick", "--exit-style", "nagios", "--workers", "1", *arguments).returncode
        self.assertIn(code(), (0, 1))
        self.assertEqual(code("--data", "/nowhere/at/all"), 2)
        self.assertEqual(code("--deadline", "soon"), 3)
        narrowed = ["taskset", "-c", "0", DLPROBE, "gate", "--level", "quick", "--workers", "4", "--exit-style", "nagios"]
        if os.cpu_count() > 1:
            self.assertEqual(subprocess.run(narrowed, capture_output=True, timeout=TIMEOUT, check=False).returncode, 1)

    def test_what_cannot_be_parsed_is_unknown_to_nagios(self):
        nagios = ["--exit-style", "nagios"]
        for words in (["--levle", "quick"], ["--level", "slow"], ["--config", "/nowhere/at/all"], ["x"]):
            self.assertEqual(dlprobe("gate", *words).returncode, 2, words)
            for typed in ([*nagios, *words], [*words, "--exit-style=nagios"]):
                done = dlprobe("gate", *typed, "-f", "nagios", text=True)
                self.assertEqual(done.returncode, 3, typed)
                self.assertRegex(done.stdout, r"\ADLPROBE UNKNOWN - [^|\n]+\n\Z", typed)
                self.assertTrue(done.stderr.startswith("dlprobe: "), typed)
        done = dlprobe("gate", *nagios, "--levle", "quick")
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        done = dlprobe("gate", *nagios, "-fnagios", "--deadline", "soon")
        self.assertEqual((done.returncode, done.stdout[:17]), (3, b"DLPROBE UNKNOWN -"))

    def test_nagios_by_the_environment_or_a_file(self):
        asked = {**os.environ, "DLPROBE_GATE_EXIT_STYLE": "nagios", "DLPROBE_GATE_FORMAT": "nagios"}
        self.assertEqual(dlprobe("gate", "--levle", env=asked).returncode, 3)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[gate]\nexit-style = "nagios"\nformat = ["nagios"]\n')
            file.flush()
            done = dlprobe("gate", "--config", file.name, "--levle", text=True)
            self.assertEqual(done.returncode, 3)
            self.assertIn("UNKNOWN - gate has no option --levle", done.stdout)
            self.assertEqual(dlprobe("gate", "--no-config", "--levle").returncode, 2)

    @unittest.skipUnless(can_mount(), NEEDS_FUSE)
    def test_a_file_system_that_does_not_answer_holds_nobody(self):
        with hung_folder() as folder:
            # The pipes must be closed and the process be gone, too.
            telling = dlprobe("gate", "--level", "quick", "--data", folder, "--deadline", "4s", "--json")
            hurried = dlprobe("gate", "--level", "quick", "--data", folder, "--deadline", "1ms", "--json")
        self.assertEqual((telling.returncode, checks_of(json.loads(telling.stdout))["host.data-folder"]), (1, "fail"))
        self.assertEqual((hurried.returncode, checks_of(json.loads(hurried.stdout))["host.data-folder"]), (3, "incomplete"))

    def test_more_threads_than_cpus(self):
        calm = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.assertEqual(checks_of(quick("--workers", "1", env=calm))["cpu.threads"], "pass")
        crowd = {**os.environ, "OPENBLAS_NUM_THREADS": "4096"}
        self.assertEqual(checks_of(quick("--workers", "1", env=crowd))["cpu.threads"], "warn")

    def test_every_format(self):
        names = ("junit", "sarif", "prometheus", "nagios", "npd", "html", "markdown", "github", "gitlab", "jsonl")
        with tempfile.TemporaryDirectory() as folder:
            formats = [word for name in names for word in ("-f", f"{name}={folder}/{name}")]
            self.assertEqual(dlprobe("gate", "--level", "quick", "--workers", "1", *formats).returncode, 0)
            for name in names:
                self.assertGreater(Path(folder, name).stat().st_size, 2, name)


@unittest.skipUnless(HAS_LOADER, NO_LOADER)
class Data(unittest.TestCase):
    """The folder of --data, with a run of the loader on it."""

    GOOD = bytes.fromhex("424d3a0000000000000036000000280000000100000001000000010018000000000004000000130b0000130b0000000000000000000000ff0000")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def gate(self, **files):
        for name, content in files.items():
            (self.folder / name.replace("_", ".")).write_bytes(content)
        done = dlprobe("gate", "--json", "--workers", "1", "--batch-size", "4", "--sample-shape", "3x8x8", "--data", self.folder)
        report = json.loads(done.stdout)
        checks = checks_of(report)
        return done.returncode, checks["host.data-folder"], checks["loader.fork.file_descriptor"]

    def test_images_that_can_be_decoded(self):
        self.assertEqual(self.gate(a_bmp=self.GOOD, b_bmp=self.GOOD), (0, "pass", "pass"))

    def test_images_of_which_none_can(self):
        self.assertEqual(self.gate(a_jpg=b"no", b_png=b""), (1, "fail", "incomplete"))

    def test_images_of_which_one_cannot(self):
        self.assertEqual(self.gate(a_bmp=self.GOOD, b_jpg=b"no"), (0, "warn", "pass"))

    def test_data_that_are_no_images_are_no_fault(self):
        self.assertEqual(self.gate(train_tar=b"x" * 512), (0, "pass", "pass"))


CC = shutil.which("cc")
NEEDS_CC = "needs a C compiler"


class Environment:
    """A virtual environment with packages of a few files: their metadata, and libraries that a linker made."""

    def __init__(self, folder):
        self.folder = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=TIMEOUT)
        self.python = str(self.folder / "bin" / "python")
        self.site = next(self.folder.glob("lib/python3*/site-packages"))

    def library(self, path, soname, needs=()):
        target = self.site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([CC, "-shared", "-nostdlib", "-Wl,--no-as-needed", f"-Wl,-soname,{soname}", "-o", target, "-x", "c", "-",
                        "-x", "none", *needs, "-Wl,-rpath,$ORIGIN"],
                       input=b"int omp_get_max_threads(void) { return 1; }", check=True, timeout=TIMEOUT)
        return str(path)

    def package(self, name, version, files=(), installer="pip"):
        metadata = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (metadata / "INSTALLER").write_text(installer + "\n")
        (metadata / "RECORD").write_text("".join(f"{each},sha256=x,1\n" for each in files))

    def torch(self):
        self.package("torch", "2.13.0", [self.library("torch/lib/libgomp.so.1", "libgomp.so.1")])

    def conda(self, name, version, metadata):
        folder = self.folder / "conda-meta"
        folder.mkdir(exist_ok=True)
        files = [f"lib/{self.site.parent.name}/site-packages/{metadata}.dist-info/{each}" for each in ("METADATA", "RECORD")]
        (folder / f"{name}-{version}-py_0.json").write_text(json.dumps({"name": name, "version": version, "files": files}, indent=2))

    def gate(self, *arguments):
        return report_of("gate", "--level", "quick", "--workers", "1", "--python", self.python, *arguments)


class Interpreter(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def python_checks(self, report):
        return {name[7:]: status for name, status in checks_of(report).items() if name.startswith("python.")}

    def test_one_that_is_not_there(self):
        done = dlprobe("gate", "--level", "quick", "--python", "python3.99", "--json")
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, checks_of(report)["python.found"]), (1, "fail"))
        self.assertIn("DLP0610", [finding["code"] for finding in report["findings"]])

    def test_one_that_is_no_python(self):
        self.assertEqual(checks_of(quick("--python", "/bin/true"))["python.found"], "fail")

    def test_one_that_does_not_answer_is_no_verdict(self):
        slow = Path(self.folder) / "python"
        slow.write_text("#!/bin/sh\nexec sleep 100\n")
        slow.chmod(0o755)
        done = dlprobe("gate", "--level", "quick", "--workers", "1", "--python", str(slow), "--deadline", "1s", "--json")
        self.assertEqual((done.returncode, checks_of(json.loads(done.stdout))["python.found"]), (3, "incomplete"))

    def test_one_that_nobody_named_and_has_no_torch_is_none_of_the_job(self):
        environment = Environment(self.folder)
        report = quick(env=dict(os.environ, PATH=f"{self.folder}/bin"))
        self.assertEqual(set(self.python_checks(report).values()), {"skipped"})
        self.assertEqual(self.python_checks(environment.gate())["found"], "pass")
        report = quick(env=dict(os.environ, PATH="/nowhere"))
        self.assertEqual(set(self.python_checks(report).values()), {"skipped"})

    @unittest.skipUnless(CC, NEEDS_CC)
    def test_two_openmp_runtimes_under_fork(self):
        environment = Environment(self.folder)
        environment.torch()
        self.assertEqual(self.python_checks(environment.gate()), {
            "found": "pass", "torch": "pass", "imports": "skipped", "openmp": "pass", "fork-unsafe": "pass",
            "mixed-conda-pip": "pass"})
        # Another wheel's copy has a name of its own, so that both are loaded.
        own = environment.library("scikit_learn.libs/libgomp-a34b3233.so.1.0.0", "libgomp-a34b3233.so.1.0.0")
        environment.package("scikit-learn", "1.5.0", [own])
        report = environment.gate()
        self.assertEqual(self.python_checks(report)["openmp"], "warn")
        finding = next(each for each in report["findings"] if each["code"] == "DLP0605")
        self.assertIn("scikit-learn", finding["message"])
        self.assertEqual(self.python_checks(environment.gate("--start-method", "spawn"))["openmp"], "pass")

    @unittest.skipUnless(CC, NEEDS_CC)
    def test_the_same_openmp_by_another_file_is_one(self):
        environment = Environment(self.folder)
        environment.torch()
        copy = environment.library("numba/libgomp.so.1", "libgomp.so.1")
        environment.package("numba", "0.60.0", [copy])
        self.assertEqual(self.python_checks(environment.gate())["openmp"], "pass")
        # A file of that name that is no OpenMP.
        (environment.site / "other").mkdir()
        (environment.site / "other" / "libomp.so").write_text("no library")
        environment.package("other", "1", ["other/libomp.so"])
        self.assertEqual(self.python_checks(environment.gate())["openmp"], "pass")

    @unittest.skipUnless(CC, NEEDS_CC)
    def test_an_openmp_that_a_module_needs(self):
        environment = Environment(self.folder)
        environment.torch()
        runtime = environment.library("fast/libiomp5.so", "libiomp5.so")
        module = environment.library("fast/core.cpython-311-x86_64-linux-gnu.so", "core.so", [str(environment.site / runtime)])
        environment.package("fast", "1", [module])
        self.assertEqual(self.python_checks(environment.gate())["openmp"], "warn")

    @unittest.skipUnless(CC, NEEDS_CC)
    def test_a_package_whose_threads_fork_loses(self):
        environment = Environment(self.folder)
        environment.package("polars", "1.0.0", [environment.library("polars/polars.abi3.so", "polars.abi3.so")])
        self.assertEqual(self.python_checks(environment.gate())["fork-unsafe"], "warn")
        self.assertEqual(self.python_checks(environment.gate("--start-method", "forkserver"))["fork-unsafe"], "pass")

    def test_conda_and_pip_over_one_another(self):
        environment = Environment(self.folder)
        environment.conda("numpy", "1.26.4", "numpy-1.26.4")
        environment.package("numpy", "1.26.4", installer="conda")
        environment.package("tqdm", "4.0", installer="pip")
        self.assertEqual(self.python_checks(environment.gate())["mixed-conda-pip"], "pass")
        environment.package("numpy", "2.1.0", installer="pip")
        report = environment.gate()
        self.assertEqual(self.python_checks(report)["mixed-conda-pip"], "warn")
        self.assertIn("1.26.4 by conda, 2.1.0 by pip", json.dumps(report["findings"]))

    def test_nothing_is_imported_or_executed(self):
        environment = Environment(self.folder)
        trace = Path(self.folder) / "trace"
        (environment.site / "torch").mkdir()
        for name in ("torch/__init__.py", "sitecustomize.py"):
            (environment.site / name).write_text(f"open({str(trace)!r}, 'a').write({name!r})\n")
        (environment.site / "x.pth").write_text(f"import os; open({str(trace)!r}, 'a').write('pth')\n")
        environment.package("torch", "2.13.0")
        self.assertEqual(self.python_checks(environment.gate())["torch"], "pass")
        self.assertFalse(trace.exists())

    @unittest.skipUnless(HAS_LOADER, NO_LOADER)
    def test_real_imports_at_level_full(self):
        environment = Environment(self.folder)
        (environment.site / "torch.py").write_text("__version__ = '2.13.0'\n")
        environment.package("torch", "2.13.0")
        full = ["gate", "--level", "full", "--workers", "1", "--sample-shape", "3x8x8", "--python", environment.python, "--deadline", "120s"]
        self.assertEqual(checks_of(report_of(*full))["python.imports"], "pass")
        (environment.site / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
        without_loader = dict(os.environ, DLPROBE_REFERENCE_LOADER="/nowhere/loader")  # whose runs take most of the time
        report = report_of(*full, env=without_loader)
        self.assertEqual(checks_of(report)["python.imports"], "fail")
        self.assertIn("libcudart.so.12", json.dumps(report["findings"]))
        (environment.site / "torch.py").write_text("import os; os.abort()\n")
        self.assertEqual(checks_of(report_of(*full, env=without_loader))["python.imports"], "fail")

    def test_this_machines_own_torch_is_healthy(self):
        python = "/usr/bin/python3"
        if not Path("/usr/lib/python3/dist-packages/torch").is_dir():
            self.skipTest("needs Debian's python3-torch")
        checks = self.python_checks(quick("--python", python))
        self.assertEqual((checks["torch"], checks["openmp"]), ("pass", "pass"), checks)


@unittest.skipUnless(HAS_LOADER, NO_LOADER)
class Default(unittest.TestCase):
    def test_a_short_run_of_the_loader_and_its_recording(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gate.dlrec")
            live = dlprobe("gate", "--workers", "1", "--sample-shape", "3x32x32", "--json", "--record", path, "--deadline", "60s")
            report = json.loads(live.stdout)
            self.assertEqual(checks_of(report)["loader.fork.file_descriptor"], "pass", report["summary"])
            self.assertEqual((live.returncode, report["invocation"]["exit_code"]), (0, 0), report["summary"])
            self.assertEqual(dlprobe("replay", path, "--json").stdout, live.stdout)

    def test_what_the_deadline_ends_is_incomplete(self):
        done = dlprobe("gate", "--workers", "1", "--batches", "100000", "--deadline", "2s", "-f", "json", "-f", "human=/dev/stderr")
        report = json.loads(done.stdout)
        self.assertNotIn(b"goes on", done.stderr)
        self.assertEqual(checks_of(report)["loader.fork.file_descriptor"], "incomplete")
        self.assertEqual(report["invocation"]["exit_code"], 3)
        self.assertEqual(report["summary"]["verdict"], "incomplete")
        # Whose doing it was, and what helps.
        self.assertIn("the deadline of 2 s came first", report["summary"]["headline"])
        self.assertIn("--deadline 20s", json.dumps(report["limitations"]))

    @unittest.skipUnless(can_unshare(), NEEDS_UNSHARE)
    def test_a_loader_that_would_not_fit_is_not_started(self):
        done = in_private_shm(small_shm("16m"), ["gate", "--json", "--workers", "8"])
        report = json.loads(done.stdout)
        self.assertEqual(checks_of(report)["loader.fork.file_descriptor"], "incomplete")
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
