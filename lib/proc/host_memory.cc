#include "lib/proc/host_memory.h"

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPressureFile = "memory pressure";

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234": the number at the end.
Expected<uint64_t> pressure_total(std::string_view text, std::string_view kind) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(kind) || line.substr(kind.size(), 1) != " ") continue;
    const size_t at = line.rfind(" total=");
    if (at == std::string_view::npos) break;
    const auto total = parse_int<uint64_t>(line.substr(at + 7));
    if (total) return *total;
    break;
  }
  return malformed(kPressureFile, "no total of " + std::string(kind), text);
}

}  // namespace

Expected<HostMemory> parse_meminfo(std::string_view text) {
  const auto total = find_kib(text, "MemTotal");
  const auto available = find_kib(text, "MemAvailable");
  const auto shmem = find_kib(text, "Shmem");
  const auto swap_total = find_kib(text, "SwapTotal");
  const auto swap_free = find_kib(text, "SwapFree");
  if (!total || !available || !shmem || !swap_total || !swap_free) {
    return malformed("/proc/meminfo", "a line is missing", text);
  }
  HostMemory memory{.total_bytes = *total,
                    .available_bytes = *available,
                    .shmem_bytes = *shmem,
                    .swap_total_bytes = *swap_total,
                    .swap_free_bytes = *swap_free,
                    .oom_kills = 0};
  memory.committed_bytes = find_kib(text, "Committed_AS");
  memory.commit_limit_bytes = find_kib(text, "CommitLimit");
  return memory;
}

Expected<uint64_t> parse_vmstat_oom_kills(std::string_view text) {
  return parse_flat_key(text, "oom_kill", "/proc/vmstat");
}

Expected<SwapTraffic> parse_vmstat_swap_traffic(std::string_view text) {
  SwapTraffic traffic;
  DLP_TRY(traffic.in_pages, parse_flat_key(text, "pswpin", "/proc/vmstat"));
  DLP_TRY(traffic.out_pages, parse_flat_key(text, "pswpout", "/proc/vmstat"));
  return traffic;
}

Expected<MemoryPressure> parse_memory_pressure(std::string_view text) {
  MemoryPressure pressure;
  DLP_TRY(pressure.full_us, pressure_total(text, "full"));
  return pressure;
}

}  // namespace dlprobe
