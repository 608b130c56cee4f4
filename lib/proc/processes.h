#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/error.h"
#include "lib/os/file_system.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/pid_status.h"

namespace dlprobe {

/// The pids in /proc of the machine whose root that is, dlprobe's own among them, in no order.
Expected<std::vector<int32_t>> list_pids(const Directory& root);

/// /proc/PID/stat.
Expected<PidStat> read_pid_stat(const Directory& root, int32_t pid);

/// /proc/PID/status.
Expected<PidStatus> read_pid_status(const Directory& root, int32_t pid);

}  // namespace dlprobe
