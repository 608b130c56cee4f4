#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/os/clock.h"

namespace dlprobe {

/// Runs a program and gives back all that it writes to standard output and standard error. It is
/// ended with its process group when it is done, or when `limit` is over or it says too much:
/// kTimeout. As ChildProcess::start where it cannot be started.
Expected<std::string> ask_program(const std::vector<std::string>& argv, const Clock& clock,
                                  std::chrono::nanoseconds limit);

}  // namespace dlprobe
