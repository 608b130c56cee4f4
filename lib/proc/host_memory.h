#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"
#include "lib/model/sample.h"

namespace dlprobe {

/// /proc/meminfo; HostMemory::oom_kills is left 0: it is in /proc/vmstat.
Expected<HostMemory> parse_meminfo(std::string_view text);

/// "oom_kill N" of /proc/vmstat (4.13+): host-wide, cumulative.
Expected<uint64_t> parse_vmstat_oom_kills(std::string_view text);

/// Pages that were swapped in and out since the machine started.
struct SwapTraffic {
  uint64_t in_pages = 0;
  uint64_t out_pages = 0;
  bool operator==(const SwapTraffic&) const = default;
};
/// "pswpin" and "pswpout" of /proc/vmstat; absent in a kernel without swap.
Expected<SwapTraffic> parse_vmstat_swap_traffic(std::string_view text);

/// /proc/pressure/memory, or memory.pressure of a cgroup of v2.
Expected<MemoryPressure> parse_memory_pressure(std::string_view text);

}  // namespace dlprobe
