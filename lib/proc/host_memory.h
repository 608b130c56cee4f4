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

}  // namespace dlprobe
