"""Saved reports: rendered in every format for a real reader of it, merged, redacted; bad input of each."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

import rank_reports
import support
from support import DLPROBE, TIMEOUT, python_program

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "recordings"
FORMATS = ["human", "json", "jsonl", "html", "markdown", "junit", "sarif", "github", "gitlab", "prometheus",
           "nagios", "npd", "dot"]
SECRETS = {"--password": "correct-horse-battery", "--api-token": "tok123secret", "--data":
           "https://ann:wonderland@store.example/x", "--key": "AKIAIOSFODNN7EXAMPLE", "--model":
           "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "--repo": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}
HIDDEN = ["correct-horse-battery", "tok123secret", "wonderland", "AKIAIOSFODNN7EXAMPLE", "hf_aBcDeF", "ghp_01234"]


def dlprobe(*arguments):
    return support.dlprobe(*arguments, text=True)


def system_python(program):
    """Debian's own Python: its packages are the readers of some formats."""
    return subprocess.run(["/usr/bin/python3", "-c", program], capture_output=True, text=True, timeout=TIMEOUT,
                          check=False)


class Saved(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def report(self, name="bus-error", **changes):
        """A report of a recorded failure, saved; each change is of a section."""
        path = self.folder / f"{name}.json"
        dlprobe("replay", str(FIXTURES / f"{name}.dlrec"), "-q", "-f", f"json={path}")
        report = json.loads(path.read_text())
        for section, values in changes.items():
            report[section].update(values)
        path.write_text(json.dumps(report))
        return path

    def node(self, name, recording="healthy", **host):
        path = self.report(recording, host={"name": name, **host})
        report = json.loads(path.read_text())
        report["report_id"] = (name.encode().hex() * 32)[:32]
        target = self.folder / f"node-{name}.json"
        target.write_text(json.dumps(report))
        path.unlink()
        return target

    def refused(self, *arguments, code=2):
        done = dlprobe("report", *arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("dlprobe: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr


class Render(Saved):
    def test_the_same_bytes_as_direct_output(self):
        for name in FORMATS:
            if name == "json":
                continue
            direct = dlprobe("replay", str(FIXTURES / "bus-error.dlrec"), "-f", name).stdout
            saved = self.folder / "direct.json"
            dlprobe("replay", str(FIXTURES / "bus-error.dlrec"), "-q", "-f", f"json={saved}")
            done = dlprobe("report", "render", str(saved), "-f", name)
            self.assertEqual((done.returncode, done.stdout), (0, direct), name)

    def test_several_formats_at_once(self):
        done = dlprobe("report", "render", str(self.report()), *sum(
            (["-f", f"{name}={self.folder}/x.{name}"] for name in FORMATS), []))
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in FORMATS:
            path = self.folder / f"x.{name}"
            self.assertGreater(path.stat().st_size, 0)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_stdin(self):
        with open(self.report(), "rb") as file:
            done = subprocess.run([DLPROBE, "report", "render", "-", "-f", "npd"], stdin=file, capture_output=True,
                                  timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertLessEqual(len(done.stdout), 80)

    def test_junit_for_a_reader_of_junit(self):
        text = dlprobe("report", "render", str(self.report()), "-f", "junit").stdout
        suite = xml.etree.ElementTree.fromstring(text)[0]
        self.assertEqual(suite.get("failures"), str(len(suite.findall("testcase/failure"))))
        self.assertEqual(suite.get("tests"), str(len(suite.findall("testcase"))))
        path = self.folder / "junit.xml"
        path.write_text(text)
        done = system_python("from junitparser import JUnitXml\n"
                             f"for suite in JUnitXml.fromfile('{path}'): print(suite.tests, suite.failures)")
        if "No module" in done.stderr:
            self.skipTest("needs python3-junitparser (apt install it)")
        self.assertEqual(done.stdout.split(), [suite.get("tests"), suite.get("failures")], done.stderr)

    def test_metrics_for_both_parsers_of_prometheus(self):
        path = self.folder / "dlprobe.prom"
        dlprobe("report", "render", str(self.report()), "-f", f"prometheus={path}", "-q")
        done = system_python(
            "from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics\n"
            "from prometheus_client.parser import text_string_to_metric_families as classic\n"
            f"text = open('{path}').read()\n"
            "print([len(list(parse(text))) for parse in (openmetrics, classic)])\n"
            "print(any(sample.timestamp for family in classic(text) for sample in family.samples))")
        if "No module" in done.stderr:
            self.skipTest("needs python3-prometheus-client (apt install it)")
        families = path.read_text().count("# TYPE")
        self.assertEqual(done.stdout, f"{[families, families]}\nFalse\n", done.stderr)

    def test_json_formats_are_json(self):
        report = str(self.report())
        for name in ("json", "jsonl", "sarif", "gitlab"):
            json.loads(dlprobe("report", "render", report, "-f", name).stdout)
        self.assertEqual(dlprobe("report", "render", report, "-f", "jsonl").stdout.count("\n"), 1)

    def test_a_line_of_the_program_where_a_finding_has_one(self):
        script = self.folder / "train.py"
        script.write_text("import multiprocessing\npool = multiprocessing.Pool(2)\n")
        done = subprocess.run([DLPROBE, "spawn-recursion", "--static", "-f", "github", "--", sys.executable,
                               str(script)], cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT,
                              check=False)
        self.assertIn("file=train.py,line=2,title=DLP0401", done.stdout)

    def test_bad_input(self):
        good = self.report()
        cases = {
            "empty": ("", "not JSON"),
            "damaged": (good.read_text()[:-100], "not JSON"),
            "deep": ('{"a":' * 100000, "nested too deeply"),
            "other": ("[1, 2]", "not a dlprobe report"),
            "major": (good.read_text().replace('"schema_version": "1.', '"schema_version": "2.'), "schema version 2."),
        }
        for name, (text, why) in cases.items():
            path = self.folder / f"{name}.json"
            path.write_text(text)
            self.assertIn(why, self.refused("render", str(path)), name)
        with open(self.folder / "huge.json", "wb") as file:
            file.truncate(2 << 30)
        self.assertIn("larger than 64.0 MiB", self.refused("render", str(self.folder / "huge.json")))
        self.assertIn("No such file", self.refused("render", str(self.folder / "none.json")))
        self.assertIn("did you mean 'html'?", self.refused("render", str(good), "-f", "htlm"))
        self.assertIn("would go to", self.refused("render", str(good), "-f", "html=x", "-f", "json=x"))
        self.assertIn("No such file", self.refused("render", str(good), "-f", f"html={self.folder}/no/x.html"))
        self.assertFalse((self.folder / "no").exists())

    def test_a_verdict_that_is_none(self):
        for section, key in (("summary", "verdict"), ("subject", "kind")):
            path = self.report(**{section: {key: "junk"}})
            self.assertIn(f'/{section}/{key} of the report is "junk"', self.refused("render", path))

    def test_a_named_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assertIn("it is a pipe without a writer", self.refused("render", pipe))
        # More than a pipe holds: the writer is done only after the reader has begun.
        text = self.report().read_bytes() + b" " * (1 << 18)
        writer = os.fdopen(os.open(pipe, os.O_RDWR), "wb")
        with subprocess.Popen([DLPROBE, "report", "render", pipe, "-q"], stdout=subprocess.PIPE, text=True) as reader:
            writer.write(text)
            writer.close()
            self.assertTrue(reader.communicate(timeout=TIMEOUT)[0].startswith("FAIL"))
        self.assertEqual(reader.returncode, 0)

    def test_a_link_of_ones_own_in_the_place_of_the_output_is_followed(self):
        target = self.folder / "target"
        target.write_text("older")
        link = self.folder / "x.html"
        link.symlink_to(target)
        dlprobe("report", "render", str(self.report()), "-f", f"html={link}", "-q")
        self.assertIn("<html", target.read_text())
        self.assertTrue(link.is_symlink())

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to give files to somebody else")
    def test_a_link_of_somebody_else_in_the_place_of_the_output_is_not_followed(self):
        victim = self.folder / "victim"
        victim.write_text("mine")
        link = self.folder / "x.html"
        link.symlink_to(victim)
        os.lchown(link, 12345, 12345)
        dlprobe("report", "render", str(self.report()), "-f", f"html={link}", "-q")
        self.assertEqual(victim.read_text(), "mine")
        self.assertFalse(link.is_symlink())

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to give files to somebody else")
    def test_a_pipe_or_a_recording_of_somebody_else_gets_nothing(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        recording = self.folder / "r.dlrec"
        recording.write_text("theirs")
        for path in (pipe, recording):
            os.chown(path, 12345, 12345)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        why = "belongs to uid 12345"
        self.assertIn(why, self.refused("render", self.report(), "-f", f"html={pipe}"))
        self.assertIn(why, self.refused("redact", self.report(), "-o", pipe))
        done = dlprobe("shm", "--record", str(recording), "--", "true")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(why, done.stderr)
        self.assertEqual(os.read(reader, 1), b"")
        self.assertEqual(recording.read_text(), "theirs")

    def test_a_pipe_that_nobody_reads_does_not_keep_the_job_from_its_exit_code(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        done = dlprobe("run", "-f", f"json={pipe}", "--", "sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 7)
        self.assertIn(f"write {pipe}, which nobody reads", done.stderr)
        self.assertIn("nobody reads", self.refused("redact", self.report(), "-o", pipe, code=3))

    def test_secrets_stay_in(self):
        words = [word for pair in SECRETS.items() for word in pair]
        outputs = sum((["-f", f"{name}={self.folder}/s.{name}"] for name in FORMATS), [])
        done = dlprobe("shm", "-v", *outputs, "--record", str(self.folder / "s.dlrec"), "--",
                       *python_program("import time; time.sleep(.5)"), *words)
        texts = [done.stdout.encode(), done.stderr.encode()]
        texts += [path.read_bytes() for path in self.folder.glob("s.*")]
        self.assertEqual(len(texts), 2 + len(FORMATS) + 1)
        for text in texts:
            for secret in HIDDEN:
                self.assertNotIn(secret.encode(), text)


class Merge(Saved):
    def merge(self, *arguments):
        done = dlprobe("report", "merge", *map(str, arguments), "--json")
        return done.returncode, json.loads(done.stdout)

    def test_nodes_with_the_same_finding_are_grouped(self):
        paths = [self.node(f"n{number}", "bus-error" if number < 3 else "healthy") for number in range(5)]
        code, report = self.merge(*paths)
        self.assertEqual(code, 1)
        self.assertEqual(report["findings"][0]["nodes"], "n[0-2]")
        self.assertEqual(report["summary"]["nodes"]["pass"], 2)

    def test_missing_and_damaged_reports_are_no_pass(self):
        path = self.node("n1")
        code, report = self.merge(path, "--expect-hosts", "n[1-3]")
        self.assertEqual((code, report["missing"]), (3, ["n2", "n3"]))
        bad = self.folder / "bad.json"
        bad.write_text("{")
        code, report = self.merge(path, bad)
        self.assertEqual((code, report["damaged"][0]["source"]), (3, str(bad)))
        self.assertEqual(self.merge(path, "--expect-hosts", "n1")[0], 0)

    def test_a_folder_a_stream_and_lines_with_their_hosts_in_front(self):
        folder = self.folder / "out"
        folder.mkdir()
        lines = ""
        for number in (1, 2):
            path = self.node(f"n{number}")
            path.rename(folder / path.name)
            line = dlprobe("report", "render", str(folder / path.name), "-f", "jsonl").stdout
            lines += f"n{number}: {line}"
        self.assertEqual(len(self.merge(folder)[1]["nodes"]), 2)
        done = subprocess.run([DLPROBE, "report", "merge", "-", "--json"], input=lines, capture_output=True,
                              text=True, timeout=TIMEOUT, check=False)
        self.assertEqual([node["node"] for node in json.loads(done.stdout)["nodes"]], ["n1", "n2"])

    def test_one_file_under_two_spellings_is_one_node(self):
        path = self.node("n1")
        link = self.folder / "again.json"
        link.symlink_to(path)
        code, report = self.merge(path, f"{self.folder}/./{path.name}", link)
        self.assertEqual((code, len(report["nodes"]), report["damaged"]), (0, 1, []))

    def test_a_pipe_in_a_folder_is_no_report_and_holds_nobody(self):
        folder = self.folder / "out"
        folder.mkdir()
        path = self.node("n1")
        path.rename(folder / path.name)
        os.mkfifo(folder / "pipe.json")
        code, report = self.merge(folder)
        self.assertEqual((code, len(report["nodes"])), (0, 1))

    def test_nodes_that_differ(self):
        report = self.merge(self.node("n1"), self.node("n2"), self.node("n3", kernel="5.4"))[1]
        self.assertEqual([finding["code"] for finding in report["findings"]], ["DLP0701"])
        self.assertIn("n3 has 5.4, the other 2 have", json.dumps(report["findings"]))

    def test_a_merged_report_is_a_report(self):
        path = self.folder / "cluster.json"
        dlprobe("report", "merge", str(self.node("n1", "bus-error")), "-q", "-f", f"json={path}")
        for name in FORMATS:
            self.assertEqual(dlprobe("report", "render", str(path), "-f", name).returncode, 0, name)

    def test_bad_input(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("nothing to merge", self.refused("merge", str(empty)))
        self.assertIn("names no host", self.refused("merge", str(self.node("n1")), "--expect-hosts", ""))
        self.assertIn("host list", self.refused("merge", str(self.node("n1")), "--expect-hosts", "n[1-"))
        self.assertIn("SLURM_JOB_NODELIST", self.refused("merge", str(self.node("n1")), "--expect-hosts", "auto"))
        done = dlprobe("report", "merge")
        self.assertEqual(done.returncode, 2)


class MergeRanks(Saved):
    """One job on two nodes, 4 ranks each."""

    def merge(self, changes=None, nodes=(1, 2), of=2):
        report = json.loads(self.report("healthy").read_text())
        for number in nodes:
            path = self.folder / f"node-{number}.json"
            path.write_text(json.dumps(rank_reports.node_report(report, number, of, changes)))
        paths = [str(self.folder / f"node-{number}.json") for number in nodes]
        done = dlprobe("report", "merge", *paths, "--json")
        self.text = dlprobe("report", "merge", *paths).stdout
        return done.returncode, json.loads(done.stdout)

    def message(self, changes, code):
        report = self.merge(changes)[1]
        self.assertEqual([finding["code"] for finding in report["findings"]], [code])
        return report["findings"][0]["message"]

    def test_the_rank_of_another_node_that_has_not_come(self):
        code, report = self.merge({5: rank_reports.SLEEPS})
        self.assertEqual((code, report["summary"]["verdict"]), (0, "warn"))
        self.assertEqual([finding["code"] for finding in report["findings"]], ["DLP0702"])
        finding = report["findings"][0]
        self.assertEqual(finding["message"], "rank 5 (n2, pid 4712) sleeps (upload, /srv/train.py:17), and ranks 0-4, 6, 7 wait in "
                         "all_reduce (main, /srv/train.py:41), for 40.0 s so far")
        self.assertEqual(finding["nodes"], "n2")
        self.assertEqual(finding["locations"][0]["path"], "/srv/train.py")
        self.assertTrue(report["summary"]["headline"].startswith("DLP0702 rank-behind: rank 5 (n2, pid 4712) sleeps"))
        self.assertEqual([rank["node"] for rank in report["ranks"]], ["n1"] * 4 + ["n2"] * 4)
        self.assertIn("ranks 0-4, 6, 7 wait in all_reduce", " ".join(self.text.split()))

    def test_its_healthy_twins(self):
        moves = {rank: {"motion": "again", "stands": False} for rank in range(8)}
        self.assertEqual(self.merge(moves)[1]["findings"], [])
        moves[5] = rank_reports.WORKS
        self.assertEqual(self.merge(moves)[1]["findings"], [])
        code, report = self.merge({5: rank_reports.WORKS})
        self.assertEqual((code, report["findings"][0]["severity"]), (0, "info"))

    def test_operations_of_two_nodes_that_do_not_fit(self):
        self.assertIn("rank 5 (n2, pid 4712) waits in broadcast", self.message({5: rank_reports.BROADCASTS}, "DLP0703"))

    def test_a_rank_of_another_node_that_is_through_with_its_data(self):
        through = dict(rank_reports.BROADCASTS, workers=[])
        self.assertIn("rank 5 (n2, pid 4712) is through with the data", self.message({5: through}, "DLP0704"))

    def test_a_rank_that_ended_on_its_node(self):
        killed = {"doing": "ended", "signal": 9, "lasts_s": 30.0}
        self.assertIn("rank 5 (n2, pid 4712) was killed by signal 9 (SIGKILL)", self.message({5: killed}, "DLP0705"))
        self.assertIn("rank 5 of this job is on none of its nodes", self.message({5: None}, "DLP0705"))

    def test_nodes_that_are_not_there_are_said(self):
        code, report = self.merge(nodes=(1, 2), of=3)
        self.assertEqual((code, report["summary"]["verdict"]), (3, "incomplete"))
        self.assertEqual(report["limitations"][0]["what"], "ranks 8-11 of job 10.0.0.1:29500")

    def test_two_nodes_that_claim_one_rank_are_not_joined(self):
        code, report = self.merge({5: dict(rank_reports.SLEEPS, rank=3)})
        self.assertEqual((code, report["findings"]), (3, []))
        self.assertEqual(report["limitations"][0]["why"], "n1 (pid 4714) and n2 (pid 4712) both say that they are rank 3")

    def test_a_rank_beyond_every_number_is_said_of_its_report(self):
        code, report = self.merge({5: dict(rank_reports.SLEEPS, rank=1 << 31)})
        self.assertEqual(code, 3)
        self.assertIn("ranks", report["damaged"][0]["why"])

    def test_jobs_whose_names_were_hidden_may_be_several(self):
        self.merge({5: rank_reports.SLEEPS})
        hidden = []
        for number in (1, 2):
            hidden.append(str(self.folder / f"hidden-{number}.json"))
            dlprobe("report", "redact", str(self.folder / f"node-{number}.json"), "-o", hidden[-1])
        self.assertEqual(json.loads(dlprobe("report", "merge", *hidden, "--json").stdout)["findings"], [])

    def test_every_format_has_them_and_names_can_be_hidden(self):
        self.merge({5: rank_reports.SLEEPS})
        path = self.folder / "cluster.json"
        dlprobe("report", "merge", str(self.folder / "node-1.json"), str(self.folder / "node-2.json"), "-q", "-f",
                f"json={path}")
        for name in FORMATS:
            self.assertEqual(dlprobe("report", "render", str(path), "-f", name).returncode, 0, name)
        hidden = self.folder / "hidden.json"
        self.assertEqual(dlprobe("report", "redact", str(path), "-o", str(hidden)).returncode, 0)
        for word in ("n2", "train", "upload", "10.0.0.1"):
            self.assertIsNone(re.search(rf"\b{word}\b", hidden.read_text()), word)


class Redact(Saved):
    def test_nodes_that_were_redacted_one_by_one_are_still_two(self):
        for name in ("n1", "n2"):
            dlprobe("report", "redact", str(self.node(name)), "-o", str(self.folder / f"red-{name}.json"))
        done = dlprobe("report", "merge", str(self.folder / "red-n1.json"), str(self.folder / "red-n2.json"), "--json")
        self.assertEqual(len(json.loads(done.stdout)["nodes"]), 2)

    def test_names_are_gone_and_the_report_still_is_one(self):
        path = self.report(host={"name": "gpu-host-9"})
        target = self.folder / "vendor.json"
        done = dlprobe("report", "redact", str(path), "-o", str(target))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertNotIn("gpu-host-9", target.read_text())
        self.assertRegex(dlprobe("report", "render", "-v", str(target)).stdout, "host-[0-9a-f]{6}-1")
        self.assertEqual(target.stat().st_mode & 0o777, 0o600)

    def test_without_a_path_it_goes_to_stdout(self):
        path = self.report(host={"name": "gpu-host-9"})
        done = dlprobe("report", "redact", str(path))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(json.loads(done.stdout)["host"]["name"], "host-[0-9a-f]{6}-1")
        self.assertIn("need a folder", self.refused("redact", path, path))

    def test_names_are_in_no_format_of_a_redacted_report(self):
        command = ["python3", "data/acme/train.py", "--user", "alice", "--master_addr", "node17", "-p", "hunter2",
                   "https://ci.corp.example.com:8443/job", "s3://acme-bucket/k", "C:\\Users\\Bob\\x"]
        foreign = "no answer of node17:29500 and fe80::1 to alice@corp.example.com"
        path = self.report(subject={"command": command}, invocation={"argv": ["dlprobe", "run", "--", *command]},
                           summary={"headline": foreign})
        report = json.loads(path.read_text())
        report["names"].append({"kind": "text", "text": foreign})
        path.write_text(json.dumps(report))
        target = self.folder / "vendor.json"
        again = self.folder / "again.json"
        dlprobe("report", "redact", str(path), "-o", str(target))
        dlprobe("report", "redact", str(target), "-o", str(again))
        self.assertEqual(target.read_text(), again.read_text())
        for name in FORMATS:
            done = dlprobe("report", "render", str(target), "-f", name)
            self.assertEqual(done.returncode, 0, name)
            for word in ("acme", "alice", "node17", "hunter2", "corp", "Bob", "fe80"):
                self.assertNotIn(word, done.stdout, name)

    def test_reports_that_were_redacted_with_one_map_still_join(self):
        names = self.folder / "names.json"
        for name in ("n1", "n2", "n1"):
            dlprobe("report", "redact", str(self.node(name)), "-o", str(self.folder / f"red-{name}.json"), "--map",
                    str(names))
        hosts = {json.loads((self.folder / f"red-{name}.json").read_text())["host"]["name"] for name in ("n1", "n2")}
        self.assertEqual(hosts, {"host-1", "host-2"})
        self.assertEqual(names.stat().st_mode & 0o777, 0o600)
        self.assertEqual(json.loads(names.read_text())["hosts"], {"n1": "host-1", "n2": "host-2"})

    def test_bad_input(self):
        path = str(self.report())
        self.assertIn("need a folder", self.refused("redact", path, path, "-o", str(self.folder / "x")))
        bad = self.folder / "map"
        bad.write_text("{}[")
        self.assertIn("not a map", self.refused("redact", path, "-o", str(self.folder / "x"), "--map", str(bad)))
        self.assertFalse((self.folder / "x").exists())
        done = dlprobe("report", "redact", path, "-o", str(self.folder / "x"), "--redact", "colours")
        self.assertEqual(done.returncode, 2)


class Paths(Saved):
    def test_the_node_the_job_and_the_pid(self):
        environment = dict(os.environ, SLURMD_NODENAME="n7", SLURM_JOB_ID="42")
        with open(self.report(), "rb") as file:
            done = subprocess.run([DLPROBE, "report", "render", "-", "-q", "-f", f"json={self.folder}/%h-%j-%r-%%.json"],
                                  stdin=file, env=environment, capture_output=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            self.fail(done.stderr)
        self.assertTrue((self.folder / "n7-42-none-%.json").exists(), os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
