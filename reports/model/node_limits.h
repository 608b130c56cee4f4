#pragma once

#include <string_view>
#include <vector>

#include "lib/model/recording.h"
#include "reports/model/objects/examination.h"

namespace dlprobe {

/// The names of limits in a report's `host.limits`.
inline constexpr std::string_view kOpenFilesLimit = "open files of a process";
inline constexpr std::string_view kProcessesLimit = "processes of the user";
inline constexpr std::string_view kGroupTasksLimit = "processes of the cgroup";
inline constexpr std::string_view kTasksLimit = "processes of the machine";
inline constexpr std::string_view kCpuQuota = "CPU quota";
inline constexpr std::string_view kMappingsLimit = "vm.max_map_count";
inline constexpr std::string_view kOvercommitPolicy = "vm.overcommit_memory";
/// The value of a limit that there is not.
inline constexpr std::string_view kUnlimited = "unlimited";

/// What the machine allows every process, by name, as far as it was read. What dlprobe itself was
/// asked to set (`--nofile`) is left out.
std::vector<report::NodeLimit> node_limits(const Recording& recording);

}  // namespace dlprobe
