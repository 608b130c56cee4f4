"""Each lint, on a small tree with one planted violation: a lint that cannot fail checks nothing.

usage: selftest.py ROOT (not looked at)
"""

import contextlib
import io
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import docs
import format as formatting
import layering
import man_page
import shape
import shell
import text
import words

PAGE = """# shm-leak

DLP0104

## What it means

Words.

## How dlprobe knows

Words.

## What to do

Words.

## When it is wrong

Words.
"""
README = "tools/quickstart\ntools/check\n"
HELP = """#!/bin/sh
if [ "$1" = shm ]; then
  printf '%s\\n' 'OPTIONS:' '  -h,     --help              This, see --elsewhere' '          --workers INT       How many'
else
  printf '%s\\n' 'OPTIONS:' '  -h,     --help              This' 'SUBCOMMANDS:' '  shm                       Shared memory'
fi
"""
MAN = """.Dd November 21, 2026
.Dt DLPROBE 1
.Os
.Sh NAME
.Nm dlprobe
.Nd name the cause
.Sh DESCRIPTION
.Bl -tag -width Ds
.It Cm shm
Shared memory.
.It Fl h , Fl -help
Help.
.It Fl -workers Ar N
How many.
.El
"""


class LintTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name).resolve()

    def tearDown(self):
        self.folder.cleanup()

    def plant(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    def expect(self, problems, *parts):
        """Exactly one problem, with all of these words in it; none where no words are given."""
        self.assertEqual(len(problems), 1 if parts else 0, problems)
        for part in parts:
            self.assertIn(part, problems[0])


class Shape(LintTest):
    def problems(self, allowed=None):
        with contextlib.redirect_stdout(io.StringIO()):
            return shape.check(self.root, allowed or {})

    def test_small_things_are_fine(self):
        self.plant("lib/a/a.cc", '#include "lib/b/b.h"\n\nint f() {\n  return 1;\n}\n')
        self.expect(self.problems())

    def test_folders_in_a_circle(self):
        self.plant("lib/a/a.cc", '#include "lib/b/b.h"\n')
        self.plant("lib/b/b.cc", '#include "lib/a/a.h"\n')
        self.expect(self.problems(), "in a circle: lib/a, lib/b")

    def test_too_many_data_members(self):
        self.plant("lib/a/a.cc", """
class A {
 public:
  explicit A(int a) : a_(a) {}
  using Map = std::map<int, int>;
  int a() const { return a_; }
  virtual std::map<int, int> all(int first,
                                 int last) = 0;
  static constexpr int kMost = 3;
  struct Part {
    int one = 1;
    int two = 2;
  };

 private:
""" + "".join(f"  std::function<void(int)> member_{i} = [] {{}};\n" for i in range(14)) + """
  Part part_{1, 2};
  int a_ = 0;
};
""")
        self.expect(self.problems(), "lib/a/a.cc A: 16 data members; 15 are the limit")
        self.expect(self.problems({("members", "lib/a/a.cc A"): 16}))

    def test_what_is_too_long(self):
        self.plant("lib/a/a.cc", "int f(int a) {\n" + "  a = 1;\n" * 61 + "}\n")
        self.expect(self.problems(), "lib/a/a.cc f: a function of 62 lines")
        self.plant("lib/a/a.cc", "class A {\n" + "  int a();\n" * 250 + "};\n")
        self.expect(self.problems(), "lib/a/a.cc A: a class of 252 lines")
        self.expect(self.problems({("class", "lib/a/a.cc A"): 252}))
        self.plant("lib/a/a.cc", "\n" * 601)
        self.expect(self.problems(), "lib/a/a.cc: a file of 601 lines")
        self.plant("lib/a/a.cc", "")
        self.plant("lib/a/a.py", "def f():\n" + "    g()\n" * 61)
        self.expect(self.problems(), "lib/a/a.py f: a function of 62 lines")

    def test_too_many_rooms(self):
        for i in range(16):
            self.plant(f"probes/r{i}/a.h", "")
        self.expect(self.problems(), "probes has 16 rooms")


class Layering(LintTest):
    def test_an_include_along_the_arrows_is_fine(self):
        self.plant("probes/a.cc", '#include <vector>\n\n#include "lib/model/sample.h"\n#include "probes/probe.h"\n')
        self.plant("lib/proc/a.h", '#include "lib/os/file_system.h"\n')
        self.expect(layering.problems(self.root))

    def test_an_include_against_the_arrows(self):
        self.plant("probes/a.cc", '#include "lib/proc/pid_stat.h"\n')
        self.expect(layering.problems(self.root), "probes/a.cc:1", "probes must not include lib/proc/pid_stat.h")

    def test_every_forbidden_pair(self):
        for folder, allowed in layering.ARROWS.items():
            for other in layering.ARROWS.keys() - allowed:
                path = self.plant(f"{folder}/a.h", f'#include "{other}/b.h"\n')
                self.expect(layering.problems(self.root), f"{folder} must not include {other}/b.h")
                path.unlink()

    def test_a_path_that_does_not_start_at_the_root(self):
        self.plant("lib/os/a.cc", '#include "clock.h"\n')
        self.expect(layering.problems(self.root), "lib/os/a.cc:1", "clock.h")

    def test_an_include_in_a_comment_is_none(self):
        self.plant("probes/a.cc", '// #include "lib/os/clock.h"\n/*\n#include "lib/os/clock.h"\n*/\n')
        self.expect(layering.problems(self.root))

    def test_packages_stay_in_their_folders(self):
        for folder, header in [("probes", "nlohmann/json.hpp"), ("lib/model", "nlohmann/json.hpp"),
                               ("reports", "CLI/CLI.hpp"), ("tools/dlprobe", "torch/torch.h"),
                               ("reports", "nlohmann/json.hpp"), ("tools/dlprobe", "nlohmann/json.hpp"),
                               ("tools/dlprobe", "opencv2/core.hpp"), ("lib/subject", "ATen/MapAllocator.h")]:
            path = self.plant(f"{folder}/a.cc", f"#include <{header}>\n")
            self.expect(layering.problems(self.root), f"{folder}/a.cc:1", "must not be included here")
            path.unlink()

    def test_packages_where_they_belong(self):
        self.plant("lib/subject/told_lines.cc", "#include <nlohmann/json.hpp>\n")
        self.plant("tools/reference_loader/a.cc", "#include <opencv2/core.hpp>\n#include <torch/torch.h>\n")
        self.plant("tools/dlprobe/a.cc", "#include <CLI/CLI.hpp>\n")
        self.expect(layering.problems(self.root))

    def test_reports_are_structs_and_json_is_for_files(self):
        for header in ("reports/model/json.h", "reports/model/read_json.h", "reports/model/write_json.h"):
            path = self.plant("reports/document/a.cc", f'#include "{header}"\n')
            self.expect(layering.problems(self.root), "reports/document/a.cc:1", "JSON must not be used here")
            path.unlink()
        self.plant("reports/exports/a.cc", '#include "reports/model/write_json.h"\n')
        self.expect(layering.problems(self.root))

    def test_links_follow_the_arrows(self):
        path = self.plant("probes/CMakeLists.txt", "target_link_libraries(dlprobe_probes PUBLIC dlprobe::model\n dlprobe::os)\n")
        self.expect(layering.problems(self.root), "probes must not link dlprobe::os")
        path.write_text("target_link_libraries(dlprobe_probes PUBLIC dlprobe::model dlprobe::options)  # dlprobe::os\n")
        self.expect(layering.problems(self.root))
        self.plant("tools/dlprobe/CMakeLists.txt", "target_link_libraries(dlprobe PRIVATE ${TORCH_LIBRARIES})\n")
        self.expect(layering.problems(self.root), "libtorch must not be linked here")

    def test_foreign_text_does_not_pass_for_own_words(self):
        path = self.plant("probes/a.cc", "finding.message = frame.file.c_str();\n")
        self.expect(layering.problems(self.root), "probes/a.cc:1", "say what the text is")
        path.unlink()
        self.plant("lib/os/a.cc", "open(path.c_str());\n")
        self.expect(layering.problems(self.root))

    def test_files_are_opened_in_one_place(self):
        for call in ["int fd = ::open(path, O_RDONLY);", "return open(path, 0);", "if (FILE* f = fopen(p, m)) {}",
                     "std::ifstream in(path);", "DIR* d = opendir(path);", "\n  open(path, O_RDONLY);",
                     "for (auto& e : std::filesystem::directory_iterator(p)) {}"]:
            path = self.plant("lib/collect/a.cc", f"void f() {{ {call} }}\n")
            self.expect(layering.problems(self.root), "lib/collect/a.cc", "files are opened in lib/os only")
            path.unlink()

    def test_what_only_looks_like_opening(self):
        self.plant("lib/collect/a.cc", 'Expected<Writer> open(int x);\nauto w = Writer::open(p);\nw.open(p);\n'
                                       '// open(path)\nauto s = "open(path)";\nauto t = files.open(p);\n')
        self.plant("lib/os/b.cc", "int fd = ::open(path, O_RDONLY);\n")
        self.expect(layering.problems(self.root))


class Text(LintTest):
    def test_a_note_to_self(self):
        self.plant("lib/a.cc", "// TO" "DO: later\n")
        self.expect(text.problems(self.root), "lib/a.cc:1")

    def test_names_of_one_machine(self):
        for line in ["/home" "/alice/data", 'open("/root' '/.cache")', "https://pypi" ".org/simple", "x=/work" "/main"]:
            path = self.plant("docs/a.md", f"see\n{line}\n")
            self.expect(text.problems(self.root), "docs/a.md:2")
            path.unlink()

    def test_the_root_of_a_process_is_none(self):
        self.plant("docs/a.md", "/proc/PID/root/dev/shm and /proc/42/root/tmp and $HOME/x, mkstemp(XXXXXX)\n")
        self.plant("lib/a.cc", 'auto p = pid_dir + "root/dev/shm", q = pid_dir + "root/.";\n')
        self.expect(text.problems(self.root))


class Words(LintTest):
    def test_plain_words_are_fine(self):
        self.plant("docs/a.md", "dlprobe cannot tell who sent it.\n\n    code " + "word " * 50 + "\n")
        self.plant("lib/a.cc", '// what is to be done\nauto message = "dlprobe cannot " "tell";\n')
        self.expect(words.problems(self.root))

    def test_a_habit_in_a_page(self):
        self.plant("docs/a.md", "First.\n\nThe limit is to be raised.\n")
        self.expect(words.problems(self.root), "docs/a.md:3", "is to be")

    def test_a_habit_in_a_message(self):
        self.plant("probes/a.cc", 'auto message = "who sent it cannot "\n    "be said";\n')
        self.expect(words.problems(self.root), "probes/a.cc:1", "cannot be said")

    def test_an_endless_sentence(self):
        self.plant("docs/a.md", "Short.\n\n* Long " + "word " * 45 + "end.\n")
        self.expect(words.problems(self.root), "docs/a.md:3", "40 words")


class Docs(LintTest):
    def setUp(self):
        super().setUp()
        self.plant("lib/model/finding_codes.def", 'DLP_FINDING(ShmLeak, "DLP0104", "shm-leak", kError, "It leaks")\n')
        self.plant("docs/findings/shm-leak.md", PAGE)
        self.plant("docs/findings/README.md", "| DLP0104 | [shm-leak](shm-leak.md) |\n")
        self.plant("README.md", README)
        self.plant("LICENSE", "Apache License\n")

    def test_the_whole_is_fine(self):
        self.expect(docs.problems(self.root))

    def test_a_code_without_a_page(self):
        (self.root / "docs/findings/shm-leak.md").unlink()
        self.plant("docs/findings/README.md", "| DLP0104 | [x](shm-leak.md) |\n")
        problems = docs.problems(self.root)
        self.assertIn("docs/findings/shm-leak.md: missing: DLP0104 is in finding_codes.def", problems)

    def test_a_page_without_a_code(self):
        self.plant("docs/findings/other.md", PAGE)
        self.expect(docs.problems(self.root), "docs/findings/other.md")

    def test_a_page_that_lacks_a_heading(self):
        self.plant("docs/findings/shm-leak.md", PAGE.replace("## When it is wrong\n\nWords.\n", ""))
        self.expect(docs.problems(self.root), "the headings must be")

    def test_a_page_with_an_empty_part(self):
        self.plant("docs/findings/shm-leak.md", PAGE.replace("## What to do\n\nWords.", "## What to do\n"))
        self.expect(docs.problems(self.root), "nothing below 'What to do'")

    def test_a_code_that_the_index_lacks(self):
        self.plant("docs/findings/README.md", "nothing\n")
        self.expect(docs.problems(self.root), "has no line with DLP0104")

    def test_a_link_that_leads_nowhere(self):
        self.plant("docs/a.md", "# Two words\n[x](b.md) [y](#two-words) [z](https://example.org)\n```\n[x](c.md)\n```\n")
        self.expect(docs.problems(self.root), "docs/a.md: the link b.md leads nowhere")

    def test_a_link_to_a_heading_that_is_not_there(self):
        self.plant("docs/a.md", "[x](findings/shm-leak.md#how-to)\n")
        self.expect(docs.problems(self.root), "no such heading")

    def test_a_readme_without_the_commands(self):
        self.plant("README.md", "tools/check\n")
        self.expect(docs.problems(self.root), "does not name tools/quickstart")

    def test_no_license(self):
        (self.root / "LICENSE").unlink()
        self.expect(docs.problems(self.root), "LICENSE")


class ManPage(LintTest):
    def setUp(self):
        super().setUp()
        self.program = self.plant("dlprobe", HELP)
        self.program.chmod(0o755)
        self.plant(man_page.PAGE, MAN)

    def test_the_whole_is_fine(self):
        self.expect(man_page.problems(self.root, self.program))

    def test_an_option_that_the_page_lacks(self):
        self.plant(man_page.PAGE, MAN.replace(".It Fl -workers Ar N\nHow many.\n", ""))
        self.expect(man_page.problems(self.root, self.program), "does not mention --workers")

    def test_an_option_that_the_program_lacks(self):
        self.plant(man_page.PAGE, MAN.replace("-workers", "-workers Ns | Ns Fl -processes"))
        self.expect(man_page.problems(self.root, self.program), "mentions --processes")

    def test_a_subcommand_that_the_page_lacks(self):
        self.plant(man_page.PAGE, MAN.replace("Cm shm", "Ar shm"))
        self.expect(man_page.problems(self.root, self.program), "the subcommand shm")


@unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
class Shell(LintTest):
    def test_a_script_with_a_fault(self):
        self.plant("tools/a", "#!/usr/bin/env bash\nrm $1\n")
        self.expect(shell.problems(self.root), "SC2086")

    def test_a_script_without(self):
        self.plant("tools/a", '#!/usr/bin/env bash\nrm "$1"\n')
        self.expect(shell.problems(self.root))


@unittest.skipUnless(shutil.which(formatting.CLANG_FORMAT), "clang-format is not installed")
class Format(LintTest):
    def test_a_file_out_of_shape(self):
        self.plant(".clang-format", "BasedOnStyle: Google\n")
        self.plant("lib/a.cc", "int  x ;\n")
        self.expect(formatting.problems(self.root), "lib/a.cc:1")
        formatting.problems(self.root, fix=True)
        self.expect(formatting.problems(self.root))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
