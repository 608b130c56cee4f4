#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A line of /proc/PID/cgroup (cgroups(7)): "4:memory:/job" of v1, "0::/job" of v2.
struct CgroupEntry {
  int32_t hierarchy = 0;                 ///< 0: v2
  std::vector<std::string> controllers;  ///< empty: v2
  std::string path;  ///< relative to the hierarchy's root, as the reader sees it

  bool operator==(const CgroupEntry&) const = default;
};

Expected<std::vector<CgroupEntry>> parse_pid_cgroup(std::string_view text);

/// The group of the process in the v1 hierarchy with that controller if there is one, else in v2;
/// null if there is neither.
const CgroupEntry* controller_cgroup(const std::vector<CgroupEntry>& entries,
                                     std::string_view controller);

}  // namespace dlprobe
