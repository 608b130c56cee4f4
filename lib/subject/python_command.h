#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// What an interpreter's command line makes it run.
enum class PythonProgram {
  kScript,       ///< a file, or a folder or zip archive with a __main__.py
  kModule,       ///< -m NAME
  kCode,         ///< -c CODE
  kStdin,        ///< "-": the program is read from standard input
  kInteractive,  ///< no program is named: a prompt, or what standard input holds
  kNone,         ///< it prints its version or its help, and ends
};
template <>
struct Names<PythonProgram> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"script", "module", "code", "stdin", "interactive", "none"});
};

/// A command line that starts a Python interpreter, taken apart.
struct PythonCommand {
  /// Index of the interpreter; what stands before it are wrappers that become it by exec (env,
  /// nice, ...).
  size_t interpreter = 0;
  PythonProgram program = PythonProgram::kNone;
  std::string name;                  ///< the script's path, the module's name, the code; or empty
  bool ignores_environment = false;  ///< -E or -I: no PYTHONPATH, no other PYTHON* variable
  bool isolated = false;             ///< -I
  bool no_site = false;              ///< -S: neither site nor sitecustomize is imported
  /// What env does to the environment between dlprobe and the interpreter.
  bool clears_environment = false;                           ///< env -i
  std::vector<std::string> unsets;                           ///< env -u NAME
  std::vector<std::pair<std::string, std::string>> assigns;  ///< env NAME=VALUE, in order

  bool operator==(const PythonCommand&) const = default;
};

/// Whether a program of that path is a Python interpreter by its name: "python", "python3.11",
/// "/opt/bin/python3.13t", "pypy3".
bool is_python_name(std::string_view path);

/// Takes a command line apart as env(1) and CPython do. No file is looked at, so a script that is
/// started by its shebang is no Python command.
///
/// kUnsupported: the command does not start with an interpreter; the sentence says what it is.
/// kInvalid: the interpreter or the wrapper itself would refuse the command line.
Expected<PythonCommand> parse_python_command(std::span<const std::string> argv);

}  // namespace dlprobe
