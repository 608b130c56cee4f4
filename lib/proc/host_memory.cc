#include "lib/proc/host_memory.h"

#include "lib/proc/cgroup_memory.h"
#include "lib/proc/text.h"

namespace dlprobe {

Expected<HostMemory> parse_meminfo(std::string_view text) {
  const auto total = find_kib(text, "MemTotal");
  const auto available = find_kib(text, "MemAvailable");
  const auto shmem = find_kib(text, "Shmem");
  const auto swap_total = find_kib(text, "SwapTotal");
  const auto swap_free = find_kib(text, "SwapFree");
  if (!total || !available || !shmem || !swap_total || !swap_free) {
    return malformed("/proc/meminfo", "a line is missing", text);
  }
  return HostMemory{.total_bytes = *total,
                    .available_bytes = *available,
                    .shmem_bytes = *shmem,
                    .swap_total_bytes = *swap_total,
                    .swap_free_bytes = *swap_free,
                    .oom_kills = 0};
}

Expected<uint64_t> parse_vmstat_oom_kills(std::string_view text) {
  return parse_flat_key(text, "oom_kill", "/proc/vmstat");
}

}  // namespace dlprobe
