#include "lib/proc/cgroup_memory.h"

#include <algorithm>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

/// v1 says "no limit" with PAGE_COUNTER_MAX pages: LONG_MAX rounded down to pages of any size.
constexpr uint64_t kNoLimitV1 = static_cast<uint64_t>(INT64_MAX) & ~uint64_t{0xFFFFF};

std::optional<uint64_t> limit_of(uint64_t value) {
  return value >= kNoLimitV1 ? std::nullopt : std::optional(value);
}

std::optional<uint64_t> find_flat_key(std::string_view text, std::string_view key) {
  const auto value = parse_flat_key(text, key, "memory.stat");
  return value ? std::optional(*value) : std::nullopt;
}

/// Page cache holds shared memory, too.
std::optional<uint64_t> without(std::optional<uint64_t> cache, uint64_t shmem) {
  return cache ? std::optional(*cache - std::min(*cache, shmem)) : std::nullopt;
}

}  // namespace

Expected<uint64_t> parse_cgroup_number(std::string_view text) {
  const auto value =
      text.ends_with('\n') ? parse_int<uint64_t>(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!value) return malformed("cgroup memory", "not a number", text);
  return *value;
}

Expected<std::optional<uint64_t>> parse_cgroup_limit(std::string_view text) {
  if (text == "max\n") return std::optional<uint64_t>();
  DLP_TRY(const uint64_t value, parse_cgroup_number(text));
  return limit_of(value);
}

Expected<CgroupStatV1> parse_cgroup_stat_v1(std::string_view text) {
  constexpr std::string_view kFile = "memory.stat";
  CgroupStatV1 stat;
  DLP_TRY(stat.shmem_bytes, parse_flat_key(text, "total_shmem", kFile));
  DLP_TRY(const uint64_t limit, parse_flat_key(text, "hierarchical_memory_limit", kFile));
  stat.hierarchical_limit = limit_of(limit);
  stat.anon_bytes = find_flat_key(text, "total_rss");
  stat.file_bytes = without(find_flat_key(text, "total_cache"), stat.shmem_bytes);
  stat.swap_bytes = find_flat_key(text, "total_swap");
  return stat;
}

Expected<CgroupStatV2> parse_cgroup_stat_v2(std::string_view text) {
  constexpr std::string_view kFile = "memory.stat";
  CgroupStatV2 stat;
  DLP_TRY(stat.shmem_bytes, parse_flat_key(text, "shmem", kFile));
  stat.anon_bytes = find_flat_key(text, "anon");
  stat.file_bytes = without(find_flat_key(text, "file"), stat.shmem_bytes);
  return stat;
}

Expected<CgroupEventsV2> parse_cgroup_events_v2(std::string_view text) {
  constexpr std::string_view kFile = "memory.events";
  CgroupEventsV2 events;
  DLP_TRY(events.oom, parse_flat_key(text, "oom", kFile));
  DLP_TRY(events.oom_kill, parse_flat_key(text, "oom_kill", kFile));
  if (const auto group_kills = parse_flat_key(text, "oom_group_kill", kFile))
    events.oom_group_kill = *group_kills;
  return events;
}

Expected<uint64_t> parse_cgroup_oom_kills(std::string_view text) {
  return parse_flat_key(text, "oom_kill", "memory.events");
}

}  // namespace dlprobe
