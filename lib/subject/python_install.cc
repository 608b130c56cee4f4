#include "lib/subject/python_install.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "lib/base/parse.h"
#include "lib/subject/ask_program.h"

namespace dlprobe {
namespace {

// One line for each fact: a word of ours, a tab, the value. pyvenv.cfg is read here as site reads
// it, because under -S nothing else does before Python 3.14.
constexpr std::string_view kAskInstall = R"(
import os, sys
out = []
def tell(key, value):
    if "\n" not in value:
        out.append("dlprobe-" + key + "\t" + value)
if sys.version_info < (3, 6):
    sys.exit("nknown option: too old")
import site
tell("version", "%d.%d.%d" % sys.version_info[:3])
executable = os.path.abspath(sys.executable or "")
tell("executable", executable)
prefixes = [sys.prefix, sys.exec_prefix]
user = not os.environ.get("PYTHONNOUSERSITE")
here = os.path.dirname(executable)
for folder in (here, os.path.dirname(here)):
    config = os.path.join(folder, "pyvenv.cfg")
    if os.path.isfile(config):
        with open(config, encoding="utf-8", errors="replace") as lines:
            entries = dict((part.strip().lower() for part in line.split("=", 1)) for line in lines if "=" in line)
        system = entries.get("include-system-site-packages") == "true"
        prefixes = [os.path.dirname(here)] + (prefixes if system else [])
        user = user and system
        sys.prefix = sys.exec_prefix = os.path.dirname(here)
        break
tell("prefix", prefixes[0])
folders = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
if user:
    folders.append(site.getusersitepackages())
folders += site.getsitepackages(list(dict.fromkeys(prefixes)))
for folder in list(folders):
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        continue
    for name in names:
        if not name.endswith(".pth"):
            continue
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    line = line.strip()
                    if line and not line.startswith(("#", "import ", "import\t")):
                        folders.append(os.path.join(folder, line))
        except OSError:
            pass
for folder in dict.fromkeys(os.path.abspath(each) for each in folders):
    if os.path.isdir(folder):
        tell("folder", folder)
print("\n" + "\n".join(out))
)";

constexpr std::string_view kTryImports = R"(
import importlib, sys
for name in sys.argv[1:]:
    try:
        module = importlib.import_module(name)
        print("\ndlprobe-import\t" + name + "\t" + str(getattr(module, "__version__", "")))
    except BaseException as error:
        text = " ".join((type(error).__name__ + ": " + str(error)).split())[:300]
        print("\ndlprobe-failed\t" + name + "\t" + text)
    sys.stdout.flush()
with open("/proc/self/maps") as maps:
    seen = dict.fromkeys(line.split(None, 5)[5].strip() for line in maps if line.split(None, 2)[1][2] == "x" and len(line.split(None, 5)) > 5)
for path in seen:
    if path.startswith("/"):
        print("\ndlprobe-mapped\t" + path)
print("\ndlprobe-end\t.")
)";

// Calls `visit(word, value)` for each line of ours; a wrapper may say what it likes.
template <class Visit>
void for_each_fact(std::string_view text, Visit&& visit) {
  constexpr std::string_view kMark = "dlprobe-";
  for_each_line(text, [&](std::string_view line) {
    const size_t tab = line.find('\t');
    if (!line.starts_with(kMark) || tab == std::string_view::npos) return;
    visit(line.substr(kMark.size(), tab - kMark.size()), std::string(line.substr(tab + 1)));
  });
}

// The last line that is none of ours: what a library says before it aborts.
std::string last_words(std::string_view text) {
  std::string words;
  for_each_line(text, [&words](std::string_view line) {
    if (!line.empty() && !line.starts_with("dlprobe-")) words = first_line(line);
  });
  return words;
}

std::string how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("signal {} ended it", WTERMSIG(wait_status));
  return fmt::format("it ended with exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace

Expected<PythonInstall> ask_install(const std::string& interpreter, const Clock& clock,
                                    std::chrono::nanoseconds limit) {
  DLP_TRY(const ProgramAnswer answer, ask_program({interpreter, "-I", "-S", "-B", "-W", "ignore",
                                                   "-c", std::string(kAskInstall)},
                                                  clock, "say where its packages are", limit));
  PythonInstall install;
  for_each_fact(answer.text, [&install](std::string_view word, std::string value) {
    if (word == "version")
      install.version = std::move(value);
    else if (word == "executable")
      install.executable = std::move(value);
    else if (word == "prefix")
      install.prefix = std::move(value);
    else if (word == "folder")
      install.folders.push_back(std::move(value));
  });
  if (!install.version.empty()) return install;
  if (answer.text.contains("nknown option"))
    return failure(ErrorCode::kUnsupported, interpreter + " is older than Python 3.6");
  return failure(ErrorCode::kUnsupported,
                 fmt::format("{} does not answer like a Python: {}; it printed: {}", interpreter,
                             how_it_ended(answer.wait_status), first_line(answer.text)));
}

ImportTrial try_imports(const std::string& interpreter, std::span<const std::string> modules,
                        const Clock& clock, std::chrono::nanoseconds limit) {
  ImportTrial trial;
  std::vector<std::string> argv = {interpreter, "-B", "-W",
                                   "ignore",    "-c", std::string(kTryImports)};
  argv.insert(argv.end(), modules.begin(), modules.end());
  const auto answer = ask_program(argv, clock, "import its packages", limit);
  if (!answer) {
    trial.trouble = to_string(answer.error());
    return trial;
  }
  bool has_ended = false;
  for_each_fact(answer->text, [&](std::string_view word, const std::string& value) {
    const size_t tab = value.find('\t');
    const std::string rest = tab == std::string::npos ? "" : value.substr(tab + 1);
    if (word == "import")
      trial.imports.push_back({.module = value.substr(0, tab), .version = rest});
    if (word == "failed")
      trial.imports.push_back({.module = value.substr(0, tab), .trouble = rest});
    if (word == "mapped") trial.mapped.push_back(value);
    has_ended = has_ended || word == "end";
  });
  if (has_ended) return trial;
  const size_t done = trial.imports.size();
  std::string ended = how_it_ended(answer->wait_status);
  const std::string words = last_words(answer->text);
  if (!words.empty()) ended += "; it said: " + words;
  if (done < modules.size()) {
    trial.imports.push_back({.module = modules[done], .trouble = ended});
  } else {
    trial.trouble = ended;
  }
  return trial;
}

}  // namespace dlprobe
