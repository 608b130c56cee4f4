#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// syscr + syscw of /proc/PID/io: how often a process, its ended threads included, has called
/// read(2), write(2) and their kin, on files, pipes and terminals. recvmsg(2) and sendmsg(2) do not
/// count.
Expected<uint64_t> parse_pid_io_calls(std::string_view text);

}  // namespace dlprobe
