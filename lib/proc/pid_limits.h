#pragma once

#include <string_view>

#include "lib/base/error.h"
#include "lib/model/process.h"

namespace dlprobe {

/// "Max open files" of /proc/PID/limits. Refuses a text without its last line (Max realtime
/// timeout).
Expected<Limit> parse_open_files_limit(std::string_view text);

}  // namespace dlprobe
