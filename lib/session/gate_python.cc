#include "lib/session/gate_python.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/collect/gate/python_packages.h"
#include "lib/foreign/libraries.h"
#include "lib/os/folder_try.h"
#include "lib/subject/ask_program.h"
#include "lib/subject/python_install.h"

namespace dlprobe {
namespace {

std::vector<std::string> split_path(std::string_view list) {
  std::vector<std::string> folders;
  for (const std::string_view folder : split(list, ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

// Where the names differ.
std::string module_of(const std::string& package) {
  if (package.starts_with("opencv-")) return "cv2";
  if (package == "scikit-learn") return "sklearn";
  return package;
}

/// Half of what is left is for each step: one that hangs leaves something to the next.
class PythonAsker {
 public:
  PythonAsker(const Machine& machine, const EnvironmentLookup& environment, BootNs end)
      : machine_(machine), environment_(environment), end_(end) {}

  void look(const PythonWish& wish, PythonFacts& facts) {
    const std::string folder = facts.executable.substr(0, facts.executable.rfind('/') + 1);
    if (!answers(folder)) return be_late(facts, folder + " does not answer");
    auto install = ask_install(facts.executable, *machine_.clock, half_of_the_rest());
    if (!install) {
      facts.trouble = to_string(install.error());
      facts.is_late = install.error().code == ErrorCode::kTimeout;
      return;
    }
    if (!install->executable.empty()) facts.executable = install->executable;
    facts.version = install->version;
    std::erase_if(install->folders, [&](const std::string& each) {
      const bool is_silent = !answers(each);
      if (is_silent) facts.not_read = each + " does not answer";
      return is_silent;
    });
    look_at_packages(*machine_.root, *machine_.clock,
                     {.folders = std::move(install->folders),
                      .prefix = std::move(install->prefix),
                      .library_path = split_path(environment_("LD_LIBRARY_PATH").value_or("")),
                      .end = machine_.clock->now() + half_of_the_rest().count()},
                     facts);
    if (wish.imports) import_all(facts);
  }

 private:
  std::chrono::nanoseconds half_of_the_rest() const {
    const BootNs rest = std::max<BootNs>(end_ - machine_.clock->now(), 0);
    return std::chrono::nanoseconds(rest / 2);
  }

  // Of a file system that does not, whoever starts or reads something there is stuck.
  bool answers(const std::string& folder) const {
    constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(2);
    const auto patience = std::min(half_of_the_rest(), kPatience);
    return try_folder_within(patience, folder, FolderUse::kRead, 1).has_value();
  }

  static void be_late(PythonFacts& facts, std::string why) {
    facts.trouble = std::move(why);
    facts.is_late = true;
  }

  void import_all(PythonFacts& facts) const {
    std::vector<std::string> modules;
    for (const PythonPackage& package : facts.packages) {
      std::string module = module_of(package.name);
      if (std::ranges::find(modules, module) == modules.end()) modules.push_back(std::move(module));
    }
    facts.was_asked_to_import = true;
    ImportTrial trial = try_imports(facts.executable, modules, *machine_.clock, half_of_the_rest());
    facts.imports = std::move(trial.imports);
    facts.import_trouble = std::move(trial.trouble);
    std::ranges::copy_if(trial.mapped, std::back_inserter(facts.loaded_openmp), is_openmp);
  }

  const Machine& machine_;
  const EnvironmentLookup& environment_;
  BootNs end_;
};

}  // namespace

std::optional<PythonFacts> look_at_python(const Machine& machine,
                                          const EnvironmentLookup& environment,
                                          const PythonWish& wish, BootNs end) {
  PythonFacts facts;
  facts.asked = wish.command;
  facts.is_named = wish.is_named;
  facts.executable = wish.command;
  if (!wish.command.contains('/')) {
    facts.executable = find_in_path(*machine.root, wish.command, environment("PATH").value_or(""));
  }
  if (facts.executable.empty()) {
    if (!wish.is_named) return std::nullopt;
    facts.trouble = "it is not in PATH";
    return facts;
  }
  PythonAsker(machine, environment, end).look(wish, facts);
  return facts;
}

}  // namespace dlprobe
