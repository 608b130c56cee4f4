"""The command line itself: help that fits a screen, completion in real shells, what was probably meant, list, explain."""

import contextlib
import functools
import json
import os
import pty
import re
import shutil
import subprocess
import tempfile
import unittest

from support import DLPROBE, TIMEOUT, dlprobe

SCREEN_LINES = 24
SCREEN_COLUMNS = 80
# The word that starts a row of a list of subcommands; options begin with "-", arguments are in capitals.
SUBCOMMAND = re.compile(r"^  ([a-z][\w-]*) {2,}\S", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def text_of(*arguments, **options):
    done = dlprobe(*arguments, **options)
    assert done.returncode == 0, (arguments, done)
    return done.stdout.decode()


def examples_in(text):
    section = re.search(r"^Examples:\n((?:  dlprobe .*\n)+)", text, re.MULTILINE)
    return section.group(1).splitlines() if section else []


def subcommands_in(text):
    return [name for name in SUBCOMMAND.findall(text) if name != "dlprobe"]


@functools.cache
def every_subcommand(*parents):
    """The words of every subcommand, nested ones too."""
    found = []
    for name in subcommands_in(text_of(*parents, "--help-all")):
        found += [[*parents, name], *every_subcommand(*parents, name)]
    return found


def long_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


class Help(unittest.TestCase):
    def test_there_are_subcommands(self):
        names = [" ".join(words) for words in every_subcommand()]
        for name in ("shm", "run", "gate", "doctor", "completion", "report merge"):
            self.assertIn(name, names)

    def test_every_help_has_examples_and_no_line_is_wider_than_a_screen(self):
        for words in [[], *every_subcommand()]:
            with self.subTest(command=words):
                text = text_of(*words, "--help", env={**os.environ, "COLUMNS": "80"})
                self.assertTrue(examples_in(text), text)
                for line in text.splitlines():
                    self.assertLessEqual(len(line), SCREEN_COLUMNS, line)

    def test_help_fits_a_screen(self):
        for words in [[], *every_subcommand()]:
            with self.subTest(command=words):
                text = text_of(*words, "--help", env={**os.environ, "COLUMNS": "80"})
                self.assertLessEqual(text.count("\n"), SCREEN_LINES, text)

    def test_what_is_not_explained_is_named(self):
        for words in [[], *every_subcommand()]:
            with self.subTest(command=words):
                brief, whole = text_of(*words, "--help"), text_of(*words, "--help-all")
                rows = set(re.findall(r"^  (?:-\w, )?(--[a-z][\w-]*)", whole, re.MULTILINE))
                self.assertTrue(rows)
                self.assertLessEqual(rows, long_options(brief))

    def test_examples_name_options_that_exist(self):
        for words in every_subcommand():
            for line in examples_in(text_of(*words, "--help")):
                with self.subTest(example=line):
                    typed = line.split("  ")[1].split(" -- ")[0].split(" > ")[0].split()[1:]
                    names = []
                    while typed and re.fullmatch(r"[a-z-]+", typed[0]) and (names + [typed[0]]) in every_subcommand():
                        names.append(typed.pop(0))
                    self.assertTrue(names, line)
                    known = set(OPTION.findall(text_of(*names, "--help-all")))
                    for option in (word for word in typed if word.startswith("-")):
                        self.assertIn(option.split("=")[0], known)

    def test_the_width_is_that_of_the_terminal_or_of_columns(self):
        def widest(columns):
            return max(map(len, text_of("run", "--help-all", env={**os.environ, "COLUMNS": columns}).splitlines()))
        self.assertLessEqual(widest("60"), 60)
        self.assertGreater(widest("120"), 80)
        self.assertLessEqual(widest("nonsense"), 80)

    def test_a_reader_that_has_gone_is_quiet(self):
        for words in (["--help"], ["list"], ["schema"], ["explain", "DLP0101"], ["completion", "bash"]):
            with self.subTest(command=words), subprocess.Popen([DLPROBE, *words], stdout=subprocess.PIPE,
                                                               stderr=subprocess.PIPE) as process:
                process.stdout.close()
                self.assertEqual(process.stderr.read(), b"")

    def test_a_full_disk_is_said(self):
        for words in (["--help"], ["list"], ["schema"], ["explain", "DLP0101"], ["completion", "zsh"], ["doctor"]):
            with self.subTest(command=words), open("/dev/full", "wb") as full:
                done = dlprobe(*words, stdout=full)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(b"No space left", done.stderr)

    def test_version_has_what_a_bug_report_needs(self):
        lines = text_of("--version").splitlines()
        self.assertRegex(lines[0], r"^dlprobe \d+\.\d+\.\d+$")
        self.assertRegex(lines[1], r"^built: (commit [0-9a-f]{10}( changed)?, )?\w+ [\d.]+, \w+, \w+; .*libunwind [\d.]+")
        self.assertRegex(lines[2], r"^running on Linux \S+, glibc [\d.]+$")


class Meant(unittest.TestCase):
    def test_what_was_probably_meant(self):
        for arguments, expected in [
                (["shn"], "dlprobe: there is no subcommand 'shn' (did you mean 'shm'?)"),
                (["explian", "DLP0101"], "did you mean 'explain'?"),
                (["shm", "--wrokers", "2"], "dlprobe: shm has no option --wrokers (did you mean '--workers'?)"),
                (["shm", "--wrokers=2"], "did you mean '--workers'?"),
                (["run", "--on-hung", "kill", "--", "true"], "did you mean '--on-hang'?"),
                (["report", "mrege", "x"], "dlprobe: report has no subcommand 'mrege' (did you mean 'merge'?)"),
                (["report", "merge", "--expect-host", "n1", "x"], "did you mean '--expect-hosts'?"),
                (["--versoin"], "did you mean '--version'?"),
                (["gate", "--level", "quik"], "'quik' is none of quick, default, full (did you mean 'quick'?)"),
                (["completion", "bsh"], "did you mean 'bash'?"),
                (["doctor", "-f", "jsn"], "did you mean 'json'?"),
                (["explain", "shm-exausted"], "did you mean 'shm-exhausted'?"),
                (["explain", "DLP1102"], "did you mean 'DLP0102'?")]:
            with self.subTest(arguments=arguments):
                done = dlprobe(*arguments)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(expected, done.stderr.decode())
                self.assertEqual(done.stderr.count(b"\n"), 1)
                self.assertEqual(done.stdout, b"")

    def test_no_word_at_all_shows_the_help(self):
        done = dlprobe()
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"dlprobe run -- python train.py", done.stderr)

    def test_nothing_is_guessed_where_nothing_is_near(self):
        done = dlprobe("shm", "--frobnicate")
        self.assertIn(b"has no option --frobnicate (see dlprobe shm --help)", done.stderr)


class ListAndExplain(unittest.TestCase):
    def test_every_way_to_write_a_code(self):
        page = text_of("explain", "DLP0301")
        self.assertIn("fork-inherited-lock", page)
        for typed in ("dlp0301", "DLP301", "dlp301", "0301", "301", "fork-inherited-lock", "Fork-Inherited-Lock"):
            self.assertEqual(text_of("explain", typed), page, typed)

    def test_numbers_that_are_no_finding(self):
        for typed in ("0", "99999", "DLP", "DLP0000", "", "-900"):
            with self.subTest(typed=typed):
                self.assertEqual(dlprobe("explain", typed).returncode, 2)

    def test_how_a_process_ended(self):
        for typed in ("-9", "137"):
            with self.subTest(typed=typed):
                self.assertTrue(text_of("explain", typed).startswith("DLP0501"))

    def test_an_error_text_or_words_or_a_probe(self):
        page = text_of("explain", "E  AssertionError:", "daemonic processes are not allowed to have children")
        self.assertEqual(page, text_of("explain", "DLP0403"))
        rows = text_of("explain", "Too", "many", "open", "files")
        codes = re.findall(r"^DLP\d{4}", rows, re.MULTILINE)
        self.assertTrue(1 < len(codes) <= 5 and set(codes) >= {"DLP0201", "DLP0202"}, rows)
        self.assertIn("$ dlprobe fd -- COMMAND", rows)
        self.assertIn("DLP0313 slow-sample", text_of("explain", "my loader is SLOW"))
        self.assertEqual(re.findall(r"^DLP\d\d", text_of("explain", "FD"), re.MULTILINE), ["DLP02"] * 6)

    def test_what_no_page_speaks_of_is_said(self):
        done = dlprobe("explain", "frobnicate the \x1b[31mwidget")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(rb"nothing is known of 'frobnicate the \x1b[31mwidget'", done.stderr)

    def test_pages_are_as_wide_as_the_terminal_and_without_marks_there(self):
        piped = text_of("explain", "DLP0102", env={**os.environ, "COLUMNS": ""})
        self.assertLessEqual(max(map(len, piped.splitlines())), 80)
        self.assertIn("## What it means\n", piped)
        ours, theirs = pty.openpty()
        with subprocess.Popen([DLPROBE, "explain", "DLP0102"], stdout=theirs,
                              env={**os.environ, "COLUMNS": "60", "NO_COLOR": "1"}) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # of a terminal whose other end is closed
                while block := os.read(ours, 65536):
                    shown += block
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        self.assertLessEqual(max(map(len, shown.decode().splitlines())), 60)
        self.assertNotRegex(shown.decode(), "[`#]")

    def test_the_list_for_programs_has_what_the_text_has(self):
        document = json.loads(text_of("list", "-f", "json"))
        self.assertEqual(document["kind"], "dlprobe.list")
        text = text_of("list")
        for finding in document["findings"]:
            self.assertIn(f"{finding['code']} {finding['name']}", text)
            self.assertEqual(text_of("explain", finding["code"]).split("\n")[0].count(finding["name"]), 1)
        self.assertEqual({probe["name"] for probe in document["probes"]},
                         {"shm", "fd", "deadlock", "memory", "spawn-recursion"} | {probe["name"] for probe in document["probes"]})
        self.assertIn("junit", [form["name"] for form in document["formats"]])
        self.assertEqual(text_of("list", "--json"), text_of("list", "-f", "json"))

    def test_the_list_goes_to_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "list.json")
            self.assertIn("DLP0101", text_of("list", "-f", f"json={path}"))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["kind"], "dlprobe.list")


# The completions ask the program of that name.
WITH_DLPROBE = {**os.environ, "PATH": os.path.dirname(DLPROBE) + os.pathsep + os.environ["PATH"]}

# Loads the completion, types the words of "$@" (the last one is incomplete) and prints what bash would offer.
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
compopt() { :; }
_dlprobe
printf '%s\\n' "${COMPREPLY[@]}"
"""


@unittest.skipUnless(shutil.which("bash"), "needs bash")
class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.script = os.path.join(cls.folder.name, "dlprobe.bash")
        with open(cls.script, "wb") as file:
            file.write(dlprobe("completion", "bash").stdout)

    def offered(self, *words):
        done = subprocess.run(["bash", "--norc", "-uc", BASH, "bash", self.script, "dlprobe", *words], capture_output=True,
                              env=WITH_DLPROBE, cwd=self.folder.name, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_subcommands(self):
        self.assertEqual(set(self.offered("")), {words[0] for words in every_subcommand()})
        self.assertEqual(self.offered("repl"), ["replay"])
        self.assertEqual(set(self.offered("report", "")), {"render", "merge", "redact"})
        self.assertEqual(self.offered("report", "mer"), ["merge"])

    def test_options_of_each_subcommand_are_those_of_its_help(self):
        for words in every_subcommand():
            with self.subTest(command=words):
                rows = re.findall(r"^  (?:-\w, )?(--[a-z][\w-]*)", text_of(*words, "--help-all"), re.MULTILINE)
                self.assertEqual(set(self.offered(*words, "--")) - {"--"}, set(rows))

    def test_values(self):
        self.assertEqual(self.offered("gate", "--level", ""), ["quick", "default", "full"])
        self.assertEqual(self.offered("gate", "--level", "=", "f"), ["full"])
        self.assertEqual(self.offered("gate", "--level", "="), ["quick", "default", "full"])
        self.assertIn("sarif", self.offered("shm", "-f", ""))
        self.assertEqual(self.offered("list", "--format", ""), ["human", "json"])
        self.assertEqual(self.offered("explain", "shm-ex"), ["shm-exhausted"])
        self.assertEqual(self.offered("explain", "DLP010"), [f"DLP010{i}" for i in range(1, 10)])
        self.assertEqual(self.offered("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.offered("shm", "--workers", ""), [])
        self.assertIn("fork-inherited-lock", self.offered("deadlock", "--fault", "fork-i"))

    def test_files_folders_and_processes(self):
        os.mkdir(os.path.join(self.folder.name, "data folder"))
        with open(os.path.join(self.folder.name, "datum.json"), "wb"):
            pass
        self.assertEqual(self.offered("replay", "datu"), ["datum.json"])
        self.assertEqual(self.offered("report", "render", "datu"), ["datum.json"])
        self.assertEqual(self.offered("shm", "-f", "json", "=", "datu"), ["datum.json"])
        self.assertEqual(self.offered("shm", "--data", "dat"), ["data", "folder"])
        self.assertIn(str(os.getpid()), self.offered("attach", ""))

    def test_behind_the_dashes_is_another_command(self):
        self.assertIn("bash", self.offered("run", "--", "bas"))
        self.assertEqual(self.offered("run", "--on-hang", "kill", "--", "cat", "dlprobe.b"), ["dlprobe.bash"])
        self.assertEqual(self.offered("run", "--", "cat", "--lev"), [])

    def test_shellcheck_finds_no_fault(self):
        if not shutil.which("shellcheck"):
            self.skipTest("needs shellcheck")
        done = subprocess.run(["shellcheck", "-s", "bash", self.script], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


# A zsh at a terminal of its own: completes what was typed, and writes what the line has become.
ZSH = """
autoload -Uz compinit && compinit -u -D
source "$DLPROBE_COMPLETION"
zstyle ':completion:*' list-separator '#'
report() { print -r -- "<$BUFFER>" >&3; BUFFER= }
zle -N report
bindkey '^T' report
LISTMAX=10000
PS1='ready>'
"""


@unittest.skipUnless(shutil.which("zsh"), "needs zsh")
class Zsh(unittest.TestCase):
    def completed(self, typed):
        """The line after Tab."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "dlprobe.zsh")
            with open(path, "wb") as file:
                file.write(dlprobe("completion", "zsh").stdout)
            with open(os.path.join(folder, ".zshrc"), "w", encoding="ascii") as file:
                file.write(ZSH)
            read_end, write_end = os.pipe()
            main, terminal = pty.openpty()
            with subprocess.Popen(["zsh", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                  preexec_fn=lambda: os.dup2(write_end, 3), pass_fds=[3, write_end], cwd=folder,
                                  env={**WITH_DLPROBE, "ZDOTDIR": folder, "DLPROBE_COMPLETION": path, "TERM": "vt100"}) as shell:
                os.close(terminal)
                os.close(write_end)
                seen = b""
                while b"ready>" not in seen:
                    seen += os.read(main, 4096)
                os.write(main, typed.encode() + b"\t\x14")
                line = os.read(read_end, 4096).decode()
                shell.kill()
            os.close(main)
            os.close(read_end)
        return line.strip()

    def test_subcommands_options_and_values(self):
        self.assertEqual(self.completed("dlprobe repl"), "<dlprobe replay >")
        self.assertEqual(self.completed("dlprobe report mer"), "<dlprobe report merge >")
        self.assertEqual(self.completed("dlprobe gate --lev"), "<dlprobe gate --level=>")
        self.assertEqual(self.completed("dlprobe gate --level qu"), "<dlprobe gate --level quick >")
        self.assertEqual(self.completed("dlprobe explain shm-ex"), "<dlprobe explain shm-exhausted >")
        self.assertEqual(self.completed("dlprobe replay dlprobe.z"), "<dlprobe replay dlprobe.zsh >")
        self.assertEqual(self.completed("dlprobe run -- cat dlprobe.z"), "<dlprobe run -- cat dlprobe.zsh >")


@unittest.skipUnless(shutil.which("fish"), "needs fish")
class Fish(unittest.TestCase):
    def offered(self, typed):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "dlprobe.fish")
            with open(path, "wb") as file:
                file.write(dlprobe("completion", "fish").stdout)
            done = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C '{typed}'"], cwd=folder,
                                  env={**WITH_DLPROBE, "HOME": folder}, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.stderr, "")
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    def test_subcommands_options_and_values(self):
        self.assertEqual(set(self.offered("dlprobe ")), {words[0] for words in every_subcommand()})
        self.assertEqual(set(self.offered("dlprobe report ")), {"render", "merge", "redact"})
        self.assertEqual(self.offered("dlprobe gate --lev"), ["--level"])
        self.assertEqual(set(self.offered("dlprobe gate --level ")), {"quick", "default", "full"})
        self.assertEqual(self.offered("dlprobe explain shm-ex"), ["shm-exhausted"])
        self.assertEqual(self.offered("dlprobe replay dlprobe.f"), ["dlprobe.fish"])
        self.assertEqual(self.offered("dlprobe run -- cat dlprobe.f"), ["dlprobe.fish"])

    def test_options_of_each_subcommand_are_those_of_its_help(self):
        for words in ([], ["shm"], ["run"], ["report", "merge"]):
            with self.subTest(command=words):
                rows = re.findall(r"^  (?:-\w, )?(--[a-z][\w-]*)", text_of(*words, "--help-all"), re.MULTILINE)
                self.assertEqual(set(self.offered(" ".join(["dlprobe", *words, "--"]))) - {"--"}, set(rows))


if __name__ == "__main__":
    unittest.main()
