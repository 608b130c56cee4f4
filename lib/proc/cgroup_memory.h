#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// One number on one line: memory.current, memory.usage_in_bytes.
Expected<uint64_t> parse_cgroup_number(std::string_view text);

/// memory.max or memory.limit_in_bytes: nothing for "max", and for the number with which v1 says
/// so (the largest whole number of pages).
Expected<std::optional<uint64_t>> parse_cgroup_limit(std::string_view text);

/// memory.stat of v1.
struct CgroupStatV1 {
  uint64_t shmem_bytes = 0;                    ///< total_shmem: with its child groups
  std::optional<uint64_t> hierarchical_limit;  ///< the smallest on the way up; none: no limit
  std::optional<uint64_t> anon_bytes;          ///< total_rss
  std::optional<uint64_t> file_bytes;          ///< total_cache without shmem
  std::optional<uint64_t> swap_bytes;          ///< total_swap, where swap is accounted for
  bool operator==(const CgroupStatV1&) const = default;
};
Expected<CgroupStatV1> parse_cgroup_stat_v1(std::string_view text);

/// memory.stat of v2.
struct CgroupStatV2 {
  uint64_t shmem_bytes = 0;
  std::optional<uint64_t> anon_bytes;
  std::optional<uint64_t> file_bytes;  ///< "file" without shmem
  bool operator==(const CgroupStatV2&) const = default;
};
Expected<CgroupStatV2> parse_cgroup_stat_v2(std::string_view text);

/// "oom_kill" of memory.oom_control (v1, 4.13+) or of memory.events (v2).
Expected<uint64_t> parse_cgroup_oom_kills(std::string_view text);

/// memory.events or memory.events.local of v2.
struct CgroupEventsV2 {
  uint64_t oom = 0;       ///< of memory.events.local: the group's own limit left no way out
  uint64_t oom_kill = 0;  ///< processes of the group that were killed
  std::optional<uint64_t> oom_group_kill;  ///< 5.17+
  bool operator==(const CgroupEventsV2&) const = default;
};
Expected<CgroupEventsV2> parse_cgroup_events_v2(std::string_view text);

}  // namespace dlprobe
