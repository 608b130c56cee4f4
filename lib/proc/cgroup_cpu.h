#pragma once

#include <optional>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// cpu.max of v2, "150000 100000": CPU time over time, 1.5. Nothing for "max 100000".
Expected<std::optional<double>> parse_cpu_max(std::string_view text);

/// cpu.cfs_quota_us and cpu.cfs_period_us of v1 in the same way. Nothing for a quota of -1.
Expected<std::optional<double>> parse_cpu_quota_v1(std::string_view quota, std::string_view period);

}  // namespace dlprobe
