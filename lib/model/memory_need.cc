#include "lib/model/memory_need.h"

#include <algorithm>
#include <map>
#include <ranges>

namespace dlprobe {
namespace {

// `whole` without `part`; none below 0.
uint64_t rest_of(uint64_t whole, uint64_t part) {
  return whole - std::min(whole, part);
}

MemoryLimit limit_of_group(const CgroupMemory& group, uint64_t limit_bytes, BootNs at) {
  const uint64_t used = rest_of(group.used_bytes, group.file_bytes.value_or(0));
  return MemoryLimit{.kind = MemoryLimit::Kind::kCgroup,
                     .name = "the memory limit of cgroup " + as_path(group.path),
                     .bytes = limit_bytes,
                     .left_bytes = rest_of(limit_bytes, used),
                     .source = group.version == 2 ? "memory.max, memory.current and memory.stat"
                                                  : "memory.usage_in_bytes and memory.stat",
                     .at = at};
}

MemoryLimit limit_of_host(const HostMemory& memory, BootNs at) {
  return MemoryLimit{.kind = MemoryLimit::Kind::kHost,
                     .name = "the machine's memory",
                     .bytes = memory.total_bytes,
                     .left_bytes = memory.available_bytes,
                     .source = "MemTotal and MemAvailable of /proc/meminfo",
                     .at = at};
}

bool is_worker(const Run& run, const ProcessKey& key) {
  const ProcessInfo* info = run.find_process(key);
  return info != nullptr && info->role == Role::kWorker;
}

BootNs last_of_role(const Run& run, Role role) {
  for (const Sample& sample : std::views::reverse(run.samples)) {
    const bool lives = std::ranges::any_of(sample.processes, [&](const ProcessSample& each) {
      const ProcessInfo* info = run.find_process(each.key);
      return info != nullptr && info->role == role;
    });
    if (lives) return sample.at;
  }
  return 0;
}

}  // namespace

std::optional<MemoryLimit> nearest_memory_limit(const Run& run, BootNs as_of) {
  std::optional<MemoryLimit> group;
  std::optional<MemoryLimit> host;
  for (const Sample& sample : run.samples) {
    if (sample.at > as_of) break;
    if (sample.cgroup && *sample.cgroup) {
      const CgroupMemory& memory = **sample.cgroup;
      const std::optional<uint64_t> limit = memory.limit_bytes;
      group = limit ? std::optional(limit_of_group(memory, *limit, sample.at)) : std::nullopt;
    }
    if (sample.host && *sample.host) host = limit_of_host(**sample.host, sample.at);
  }
  if (host && (!group || host->left_bytes < group->left_bytes)) return host;
  return group;
}

bool is_of_whole_machine(const CgroupMemory& group) {
  return group.path == "/" && !group.limit_bytes;
}

BootNs last_at_work(const Run& run) {
  for (const Role role : {Role::kWorker, Role::kTrainer}) {
    if (const BootNs last = last_of_role(run, role); last > 0) return last;
  }
  return run.samples.empty() ? 0 : run.samples.back().at;
}

uint64_t private_anonymous_bytes(const ProcessSample& sample) {
  if (!sample.private_bytes || !sample.pss_bytes || !*sample.pss_bytes) return 0;
  const uint64_t other = rest_of(**sample.pss_bytes, sample.pss_anon_bytes.value_or(0));
  return rest_of(*sample.private_bytes, other);
}

std::optional<WorkerMemory> memory_of_a_worker(const Run& run) {
  std::map<ProcessKey, WorkerMemory> last;
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& each : sample.processes) {
      if (!each.private_bytes || !each.rss_bytes || !each.rss_shared_bytes) continue;
      const uint64_t anonymous = rest_of(*each.rss_bytes, *each.rss_shared_bytes);
      last[each.key] = {.at = sample.at,
                        .key = each.key,
                        .own_bytes = *each.private_bytes,
                        .to_copy_bytes = rest_of(anonymous, private_anonymous_bytes(each))};
    }
  }
  std::erase_if(last, [&](const auto& each) { return !is_worker(run, each.first); });
  if (last.empty()) return std::nullopt;
  return std::ranges::max_element(last, {}, [](const auto& each) { return each.second.own_bytes; })
      ->second;
}

}  // namespace dlprobe
