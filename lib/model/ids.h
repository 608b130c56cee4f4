#pragma once

#include <compare>
#include <cstdint>

namespace dlprobe {

/// A process for good: pids are reused, (pid, start time) is not within one boot.
struct ProcessKey {
  int32_t pid = 0;
  uint64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat, clock ticks since boot

  auto operator<=>(const ProcessKey&) const = default;
};

/// Nanoseconds on CLOCK_BOOTTIME, the clock of ProcessKey::start_ticks. Runs on in suspend.
using BootNs = int64_t;

}  // namespace dlprobe
