#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// /proc/PID/task/TID/schedstat: "1043992 25000 7" (Documentation/scheduler/sched-stats.rst).
struct SchedStat {
  uint64_t cpu_ns = 0;
  uint64_t queued_ns = 0;  ///< ready to run, and without a CPU
  uint64_t timeslices = 0;
  bool operator==(const SchedStat&) const = default;
};
Expected<SchedStat> parse_schedstat(std::string_view text);

}  // namespace dlprobe
