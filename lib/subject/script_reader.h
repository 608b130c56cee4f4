#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/script_facts.h"
#include "lib/os/machine.h"
#include "lib/subject/python_command.h"

namespace dlprobe {

/// Reads a Python command's program with the interpreter of the command, without running anything
/// of it: the interpreter runs read_script.py and what belongs to it alone, isolated (-I -S), which
/// makes a syntax tree.
struct ScriptReader {
  Machine machine;
  std::string path_variable;  ///< PATH, for a script that is started by its name alone
  std::chrono::nanoseconds limit = std::chrono::seconds(20);  ///< then it is ended, and kTimeout

  /// The command with its interpreter in front: a script that is started by its shebang is preceded
  /// by the shebang's words, as the kernel does it. Any other command comes back as it is.
  std::vector<std::string> with_interpreter(std::vector<std::string> argv) const;

  /// What the program says. A program that cannot be read, for a syntax error too, is a reading
  /// with an `error`. kUnsupported: not a Python command, or an interpreter older than 3.6, in a
  /// sentence for people. kNotFound, kForbidden: the interpreter cannot be started. kTimeout.
  Expected<ScriptReading> read(const std::vector<std::string>& argv) const;
};

/// The texts of read_script.py, script_values.py and follow_script.py, which are part of dlprobe.
/// The interpreter is given each as an argument of its own: the kernel takes none over 128 KiB.
struct ScriptReaderSource {
  std::string_view read;
  std::string_view values;
  std::string_view follow;
};
ScriptReaderSource script_reader_source();

}  // namespace dlprobe
