#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/os/clock.h"
#include "lib/os/file_system.h"

namespace dlprobe {

/// What a program said, on both streams, and how it ended.
struct ProgramAnswer {
  std::string text;
  int wait_status = 0;  ///< as wait(2) encodes it
};

/// Runs a program to its end, in a process group that is ended after `limit`
/// (kTimeout, with `purpose` in the sentence). kNotFound, kForbidden: it cannot be started.
Expected<ProgramAnswer> ask_program(const std::vector<std::string>& argv, const Clock& clock,
                                    std::string_view purpose, std::chrono::nanoseconds limit);

/// The first line of what a program said, cut and escaped: for "it printed: ...".
std::string first_line(std::string_view text);

/// Where a command is, as a shell finds it; empty: nowhere.
std::string find_in_path(const Directory& root, const std::string& name,
                         std::string_view path_variable);

}  // namespace dlprobe
