#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A line "cpu3 ..." of /proc/stat: time since the machine started, in clock ticks.
struct CpuTime {
  int number = 0;
  uint64_t busy_ticks = 0;   ///< it ran something, interrupts and other virtual machines included
  uint64_t total_ticks = 0;  ///< those, and the time in which it was idle
  bool operator==(const CpuTime&) const = default;
};
/// /proc/stat: one for each CPU that is online.
Expected<std::vector<CpuTime>> parse_cpu_stat(std::string_view text);

}  // namespace dlprobe
