// How a program whose workers are copies of another process starts them anew: by what forks them.

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

constexpr const char* kCleanly =
    "Start workers from a clean process, which inherits no locks or threads";

struct Starter {
  std::string_view code;  ///< how the path of its file begins
  const char* title;
  std::array<const char*, 2> commands;  ///< null: none
  /// Nobody but who calls it can tell it how to start them.
  bool is_for_caller = false;
};
constexpr std::array<Starter, 10> kStarters = {{
    {"torch/utils/data/",
     kCleanly,
     {"DataLoader(..., multiprocessing_context='forkserver')",
      "DataLoader(..., multiprocessing_context='spawn')"}},
    {"joblib/", kCleanly, {"Parallel(..., backend='loky')", nullptr}},
    {"mpire/", kCleanly, {"WorkerPool(..., start_method='forkserver')", nullptr}},
    {"multiprocess/",
     kCleanly,
     {"multiprocess.set_start_method('spawn')  # under the main guard", nullptr}},
    {"billiard/",
     "Let threads do the tasks: a pool of processes is forked",
     {"celery worker --pool threads", nullptr}},
    {"gunicorn/",
     "Load the application in each worker, not before the fork: without --preload. Or create what "
     "it uses in the hook post_fork",
     {}},
    {"torch/multiprocessing/pool.py",
     kCleanly,
     {"torch.multiprocessing.get_context('forkserver').Pool(...)", nullptr},
     true},
    {"multiprocessing/pool.py",
     kCleanly,
     {"multiprocessing.get_context('forkserver').Pool(...)", nullptr},
     true},
    {"concurrent/futures/process.py",
     kCleanly,
     {"ProcessPoolExecutor(..., mp_context=multiprocessing.get_context('forkserver'))", nullptr},
     true},
    {"multiprocessing/process.py",
     kCleanly,
     {"multiprocessing.get_context('forkserver').Process(...)", nullptr},
     true},
}};

// "torch/utils/data/dataloader.py", also of an installation that is edited.
std::string_view path_of_code(std::string_view file) {
  if (const auto path = path_in_library(file)) return *path;
  const size_t of_torch = is_of_torch(file) ? file.rfind("/torch/") : std::string_view::npos;
  return of_torch == std::string_view::npos ? "" : file.substr(of_torch + 1);
}

const Starter* starter_at(std::string_view path) {
  const auto found = std::ranges::find_if(
      kStarters, [&](const Starter& each) { return path.starts_with(each.code); });
  return found == kStarters.end() ? nullptr : &*found;
}

// A function that the standard library calls another's by on the way to a fork.
bool is_between(std::string_view path) {
  constexpr std::array<std::string_view, 4> kBetween = {"multiprocessing/", "concurrent/futures/",
                                                        "torch/multiprocessing/", "threading.py"};
  return path.empty() || std::ranges::any_of(kBetween, [&](std::string_view each) {
           return path.starts_with(each);
         });
}

// The stack of a copy goes on with that of its parent, as it was at the fork: from there to the
// user's code. Without such a frame who calls the worker's code has forked it.
const Starter* starter_of(const std::vector<StackFrame>& stack) {
  const auto launch = std::ranges::find_if(stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "popen_fork.py");
  });
  const Starter* starter = nullptr;
  for (auto frame = launch == stack.end() ? stack.begin() : launch; frame != stack.end(); ++frame) {
    if (!frame->python) continue;
    if (launch != stack.end() && is_of_user(*frame)) break;
    const std::string_view path = path_of_code(frame->file);
    if (const Starter* here = starter_at(path))
      starter = here;
    else if (starter != nullptr && starter->is_for_caller && !is_between(path))
      starter = nullptr;
  }
  return starter;
}

// By the witness: no test of its name was met in the main module that started a process.
bool lacks_guard(const Run& run) {
  return std::ranges::any_of(run.start_events, [](const StartEvent& event) {
    return event.kind == StartEventKind::kStarted && event.wanted == "guard";
  });
}

bool has_python(const std::vector<StackFrame>& stack) {
  return std::ranges::any_of(
      stack, [](const StackFrame& frame) { return frame.python && is_of_a_library(frame.file); });
}

}  // namespace

void add_remedy_of_clean_start(Finding& finding, const Facts& facts, const ProcessSnapshot* copy) {
  const ThreadSnapshot* main = nullptr;
  if (copy != nullptr) {
    for (const ThreadSnapshot& thread : copy->threads)
      if (thread.tid == copy->key.pid) main = &thread;
  }
  // What has no stack is mostly a worker of PyTorch.
  const bool is_seen = main != nullptr && has_python(main->stack);
  const Starter* starter = is_seen ? starter_of(main->stack) : &kStarters.front();
  Remedy remedy{.title =
                    "Start its processes by forkserver or spawn: a clean process inherits no "
                    "locks or threads",
                .verify = "dlprobe deadlock --pid PID",
                .settings = {{SettingKind::kStartMethod, "", "spawn"}}};
  if (starter != nullptr) {
    remedy.title = starter->title;
    for (const char* command : starter->commands)
      if (command != nullptr) remedy.commands.emplace_back(command);
    if (starter->title != kCleanly) remedy.settings.clear();
  }
  if (!remedy.settings.empty() && lacks_guard(*facts.run)) {
    remedy.title += ". It imports the main module again, which has no main guard";
    remedy.commands.emplace_back("if __name__ == '__main__':  # around all that the script runs");
  }
  finding.remedies.push_back(std::move(remedy));
}

}  // namespace dlprobe::probes::deadlock
