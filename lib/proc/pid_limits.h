#pragma once

#include <string_view>

#include "lib/base/error.h"
#include "lib/model/process.h"

namespace dlprobe {

/// "Max open files" of /proc/PID/limits. Refuses a text without its last line (Max realtime
/// timeout).
Expected<Limit> parse_open_files_limit(std::string_view text);

/// "Max processes": threads of all the user's processes (RLIMIT_NPROC).
Expected<Limit> parse_processes_limit(std::string_view text);

/// The soft and hard limit of "Max cpu time", in seconds.
Expected<Limit> parse_cpu_time_limit(std::string_view text);

/// The soft and hard limit of "Max file size", in bytes.
Expected<Limit> parse_file_size_limit(std::string_view text);

/// The soft and hard limit of "Max stack size", in bytes.
Expected<Limit> parse_stack_limit(std::string_view text);

}  // namespace dlprobe
