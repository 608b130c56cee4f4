#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "lib/base/error.h"
#include "lib/session/examination.h"

namespace dlprobe {

/// What the user said about a Python command, as typed.
struct PythonOptions {
  std::optional<std::string> start_method;
  std::optional<std::string> sharing_strategy;
  std::optional<std::string> num_workers;
  std::optional<std::string> prefetch_factor;
  bool force = false;
};

/// Adds --start-method, --sharing-strategy, --num-workers, --prefetch-factor and --force to
/// `command`.
void add_python_options(CLI::App& command, PythonOptions& options, const std::string& group);

/// Puts them into a request about a command. kInvalid names the option, or says why the command's
/// interpreter could not be given them.
Status put_python_options(const PythonOptions& options, CommandSubject& command);

}  // namespace dlprobe
