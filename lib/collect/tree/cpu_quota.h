#pragma once

#include <optional>
#include <string>

#include "lib/os/machine.h"

namespace dlprobe {

/// How much CPU time a cgroup may have.
struct CpuQuota {
  double cpus = 0;     ///< CPU time over time: 1.5 is one CPU and a half
  std::string source;  ///< the file that says so
};

/// The smallest quota of dlprobe's own cgroup and those above it, as far up as they are visible:
/// cpu.max of v2, cpu.cfs_quota_us of v1. Nothing where there is no limit. An Error if the groups
/// cannot be looked at.
Expected<std::optional<CpuQuota>> read_cpu_quota(const Machine& machine);

}  // namespace dlprobe
