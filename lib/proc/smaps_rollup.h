#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// /proc/PID/smaps_rollup: sums over all mappings.
struct SmapsRollup {
  uint64_t rss_bytes = 0;
  uint64_t pss_bytes = 0;
  uint64_t swap_bytes = 0;                 ///< with shared memory, unlike VmSwap
  std::optional<uint64_t> pss_anon_bytes;  ///< Linux 5.4+
  uint64_t private_bytes = 0;              ///< Private_Clean and Private_Dirty

  bool operator==(const SmapsRollup&) const = default;
};

/// Refuses a text without its last line (Locked). An empty one is of a process without memory.
Expected<SmapsRollup> parse_smaps_rollup(std::string_view text);

}  // namespace dlprobe
