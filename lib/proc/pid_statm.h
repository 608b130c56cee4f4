#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// /proc/PID/statm, in pages. All zero for a zombie.
struct PidStatm {
  uint64_t size = 0;
  uint64_t resident = 0;
  uint64_t shared = 0;  ///< the part of `resident` that is of files and of shared memory

  bool operator==(const PidStatm&) const = default;
};

Expected<PidStatm> parse_pid_statm(std::string_view text);

}  // namespace dlprobe
