"""dlprobe.toml, DLPROBE_* and the command line: who wins, what is refused, what becomes of findings."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import DLPROBE, TIMEOUT, dlprobe

BAD_DATA = ("gate", "--level", "quick", "--data", "/nowhere/at/all")  # DLP0607, an error


class Configured(unittest.TestCase):
    """A folder to stand in, and a home, with nothing in them."""

    def setUp(self):
        keeper = tempfile.TemporaryDirectory()
        self.addCleanup(keeper.cleanup)
        self.folder = Path(keeper.name) / "here"
        self.home = Path(keeper.name) / "home"
        self.folder.mkdir()
        self.home.mkdir()

    def write(self, text, path="dlprobe.toml"):
        (self.folder / path).write_text(text, encoding="utf-8")

    def run_here(self, *arguments, user=None, **variables):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("DLPROBE_") or key == "DLPROBE_REFERENCE_LOADER"}
        environment.pop("XDG_CONFIG_HOME", None)
        return dlprobe(*arguments, cwd=self.folder, user=user,
                       env={**environment, "HOME": str(self.home), **variables})

    def value(self, option, *arguments, **variables):
        shown = json.loads(self.run_here("config", "show", "--subcommand", "gate", "--json", *arguments, **variables).stdout)
        return next((each["value"], each["source"]) for each in shown["options"] if each["option"] == option)


class Precedence(Configured):
    def test_from_the_default_to_the_variable(self):
        self.assertEqual(self.value("level"), ("default", "default"))
        home = self.home / ".config/dlprobe"
        home.mkdir(parents=True)
        (home / "dlprobe.toml").write_text('[gate]\nlevel = "full"\ndeadline = "9s"\n', encoding="utf-8")
        self.assertEqual(self.value("level"), ("full", f"{home}/dlprobe.toml:2:1"))
        self.write('[gate]\nlevel = "quick"\n')
        self.assertEqual(self.value("level"), ("quick", "dlprobe.toml:2:1"))
        self.assertEqual(self.value("deadline")[0], "9s")
        self.assertEqual(self.value("level", DLPROBE_LEVEL="full"), ("full", "DLPROBE_LEVEL"))
        self.assertEqual(self.value("level", DLPROBE_LEVEL="full", DLPROBE_GATE_LEVEL="default"),
                         ("default", "DLPROBE_GATE_LEVEL"))

    def test_the_command_line_wins(self):
        self.write('[gate]\nlevel = "full"\ndata = "/usr/include"\n')
        report = json.loads(self.run_here("gate", "--level", "quick", "--json").stdout)
        self.assertEqual(report["invocation"]["settings"],
                         [{"name": "--data", "value": "/usr/include", "source": "dlprobe.toml:3:1"}])

    def test_a_named_file_is_the_only_one(self):
        self.write('[gate]\nlevel = "full"\n')
        self.write('[gate]\ndeadline = "9s"\n', "other.toml")
        self.assertEqual(self.value("level", "--config", "other.toml"), ("default", "default"))
        self.assertEqual(self.value("deadline", DLPROBE_CONFIG="other.toml")[0], "9s")
        self.assertEqual(self.value("level", "--no-config"), ("default", "default"))

    def test_a_list_and_a_flag(self):
        self.write('quiet = true\n[gate]\nlevel = "quick"\nformat = ["human", "json=report.json", "junit=report.xml"]\n')
        done = self.run_here("gate")
        self.assertEqual(done.stdout.count(b"\n"), 1, done.stderr)
        self.assertEqual({each.name for each in self.folder.iterdir()}, {"dlprobe.toml", "report.json", "report.xml"})

    def test_a_file_that_others_may_write_is_not_used_unless_named(self):
        self.write('[gate]\nlevel = "full"\n')
        (self.folder / "dlprobe.toml").chmod(0o666)
        done = self.run_here("config", "show", "--subcommand", "gate")
        self.assertIn(b"everybody may write to it", done.stderr)
        self.assertEqual(self.value("level")[0], "default")
        self.assertEqual(self.value("level", "--config", "dlprobe.toml")[0], "full")
        (self.folder / "dlprobe.toml").chmod(0o664)
        self.assertEqual(self.value("level")[0], "default")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to give a file to somebody else")
    def test_a_file_of_somebody_else_is_not_used(self):
        self.write('[gate]\nlevel = "full"\n')
        os.chown(self.folder / "dlprobe.toml", 12345, 12345)
        self.assertEqual(self.value("level")[0], "default")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to give files to somebody else")
    def test_a_file_of_ones_own_is_not_used_where_somebody_else_put_it(self):
        self.write('[gate]\nlevel = "full"\n', "real.toml")
        (self.folder / "dlprobe.toml").symlink_to("real.toml")
        self.assertEqual(self.value("level")[0], "full")
        os.lchown(self.folder / "dlprobe.toml", 12345, 12345)
        self.assertEqual(self.value("level")[0], "default")
        os.lchown(self.folder / "dlprobe.toml", 0, 0)
        os.chown(self.folder, 12345, 12345)
        self.assertEqual(self.value("level")[0], "default")
        done = self.run_here("config", "show")
        self.assertIn(b"its folder belongs to uid 12345, and dlprobe runs as uid 0", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become somebody else")
    def test_under_the_home_of_somebody_else(self):
        (self.home / ".config").mkdir()
        self.home.chmod(0o700)
        self.folder.parent.chmod(0o755)
        done = self.run_here("gate", "--level", "quick", "-q", user=65534)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)

    def test_variables_of_other_people_do_no_harm(self):
        self.assertEqual(self.run_here("config", "check", DLPROBE_SERVICE_HOST="10.0.0.1").returncode, 0)

    def test_secrets_are_masked(self):
        self.write('[run]\non-failure = "curl --token abcdef0123456789 https://me:hunter2@host/"\n')
        for arguments in ((), ("--json",)):
            done = self.run_here("config", "show", *arguments)
            self.assertNotIn(b"hunter2", done.stdout)


class Refused(Configured):
    def refused(self, text, why, *arguments):
        self.write(text)
        done = self.run_here(*(arguments or ("gate", "--level", "quick")))
        self.assertEqual((done.returncode, done.stdout), (2, b""), text)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertIn(why, done.stderr.decode())

    def test_what_does_not_fit(self):
        self.refused('[gate]\ndeadlin = "9s"\n', "dlprobe.toml:2:1: unknown key 'deadlin'")
        self.refused('[gate]\ndeadlin = "9s"\n', "did you mean 'deadline'")
        self.refused('[gat]\nlevel = "full"\n', "did you mean 'gate'")
        self.refused('fail-onn = "info"\n', "did you mean 'fail-on'")
        self.refused('[gate]\nworkers = "four"\n', "dlprobe.toml:2:1: gate --workers")
        self.refused('[gate]\nworkers = [1, 2]\n', "one value is asked for")
        self.refused('[gate]\nquiet = "perhaps"\n', "true or false is asked for")
        self.refused('[gate]\ndeadline = true\n', "a value is asked for")
        self.refused('[gate\n', "dlprobe.toml:1:")
        self.refused('[findings.DLP0107]\nseverity = 3\n', "severity is")

    def test_another_subcommands_table_is_checked_too(self):
        self.refused('[shm]\nworkerz = 3\n', "did you mean 'workers'")
        self.write('[shm]\nworkers = "four"\n')
        self.assertEqual(self.run_here("list").returncode, 0)
        self.refused('[shm]\nworkers = "four"\n', "shm --workers", "config", "check")

    def test_a_value_that_the_command_itself_refuses(self):
        self.write('[gate]\ndeadline = 9\n')
        done = self.run_here("gate", "--level", "quick")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"dlprobe.toml:2:1", done.stderr)

    def test_a_named_file_that_is_not_there(self):
        done = self.run_here("gate", "--config", "nowhere.toml")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"nowhere.toml", done.stderr)

    def test_a_pipe(self):
        os.mkfifo(self.folder / "pipe")
        done = self.run_here("gate", "--level", "quick", "--config", "pipe")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"it is a pipe without a writer", done.stderr)
        (self.folder / "level.toml").write_text('[gate]\nlevel = "full"\n', encoding="utf-8")
        script = f'"{DLPROBE}" config show --config <(cat level.toml); cat level.toml | "{DLPROBE}" config show --config /dev/stdin'
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT,
                              check=False)
        self.assertEqual(done.stdout.count("gate --level  full"), 2, done.stderr)

    def test_a_threshold_for_what_no_finding_has(self):
        self.write('[findings.DLP0104]\nat-least = { leaked_byte = "1 MiB" }\n')
        for command in (("config", "check"), ("gate", "--level", "quick")):
            done = self.run_here(*command)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"dlprobe.toml:2:14: no finding has the evidence 'leaked_byte' (did you mean "
                          b"'leaked_bytes'?)", done.stderr)
        self.write('[findings.DLP0104]\nat-least = { leaked_bytes = "1 MiB" }\n')
        self.assertEqual(self.run_here("config", "check").returncode, 0)

    def test_every_number_of_a_real_finding_may_be_named(self):
        rules = set()
        for path in (Path(__file__).resolve().parent.parent / "fixtures" / "recordings").glob("*.dlrec"):
            for finding in json.loads(self.run_here("replay", path, "--json").stdout)["findings"]:
                rules |= {f"[findings.{finding['code']}.at-least]\n{each['name']} = 1\n" for each in finding["evidence"]
                          if not isinstance(each["value"], str) and not each["name"][-1].isdigit()}  # of one process
        self.assertGreater(len(rules), 5)
        for rule in rules:
            self.write(rule)
            self.assertEqual(self.run_here("config", "check").returncode, 0, rule)

    def test_a_threshold_for_what_this_finding_has_not(self):
        self.write('[findings.DLP0607]\nat-least = { leaked_bytes = "1 MiB" }\n')
        done = self.run_here(*BAD_DATA, "--json")
        self.assertIn(b"the threshold of DLP0607 in dlprobe.toml:2:14 does not hold", done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the threshold of DLP0607 in dlprobe.toml:2:14", [each["what"] for each in report["limitations"]])

    def test_a_threshold_in_another_unit_does_not_hold(self):
        self.write('[findings.DLP0101]\nat-most = { forecast = "1000000000s" }\n')
        done = self.run_here("gate", "--level", "quick", "--workers", "1000", "--batch-size", "60000", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"no number 'forecast' in s", done.stderr)

    def test_a_bad_file_is_no_obstacle_to_help(self):
        self.write("[gate\n")
        for arguments in (("gate", "--help"), ("explain", "DLP0101"), ("schema",), ("gate", "--level", "quick", "--no-config")):
            self.assertEqual(self.run_here(*arguments).returncode, 0, arguments)


class Findings(Configured):
    def test_a_suppression(self):
        self.write('[[suppress]]\ncode = "DLP0607"\nreason = "the volume comes later"\nuntil = "never"\n')
        done = self.run_here(*BAD_DATA)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(b"the volume comes later", done.stdout)
        report = json.loads(self.run_here(*BAD_DATA, "--json").stdout)
        self.assertEqual([each["code"] for each in report["suppressed"]], ["DLP0607"])
        self.assertNotIn("DLP0607", [each["code"] for each in report["findings"]])
        self.assertEqual(self.run_here(*BAD_DATA, "--no-config").returncode, 1)

    def test_one_that_has_ended(self):
        self.write('[[suppress]]\ncode = "data-not-readable"\nreason = "the volume comes later"\nuntil = 2020-01-31\n')
        done = self.run_here(*BAD_DATA, "-v")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"it ended on 2020-01-31", done.stdout)

    def test_a_severity(self):
        self.write('[findings.DLP0607]\nseverity = "warning"\n')
        report = json.loads(self.run_here(*BAD_DATA, "--json").stdout)
        self.assertEqual((report["summary"]["verdict"], report["invocation"]["exit_code"]), ("warn", 0))
        self.assertEqual(report["findings"][0]["severity_source"], "dlprobe.toml:2:1")
        self.assertEqual(self.run_here(*BAD_DATA, "--fail-on", "warning").returncode, 1)


if __name__ == "__main__":
    unittest.main()
