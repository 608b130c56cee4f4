#include "lib/proc/cpu_stat.h"

#include <cstddef>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kFile = "/proc/stat";
constexpr std::string_view kName = "cpu";

// "cpu0 user nice system idle iowait irq softirq steal guest guest_nice": the last two are a part
// of the first two.
Expected<CpuTime> parse_cpu(std::string_view line) {
  constexpr size_t kIdle = 4;
  constexpr size_t kWaits = 5;
  constexpr size_t kSteal = 8;
  const auto fields = split_fields(line);
  const auto number = parse_int<int>(fields.front().substr(kName.size()));
  if (!number || fields.size() <= kSteal) return malformed(kFile, "not a CPU's times", line);
  CpuTime time{.number = *number};
  for (size_t i = 1; i <= kSteal; ++i) {
    const auto ticks = parse_int<uint64_t>(fields[i]);
    if (!ticks) return malformed(kFile, "not a CPU's times", line);
    time.total_ticks += *ticks;
    if (i != kIdle && i != kWaits) time.busy_ticks += *ticks;
  }
  return time;
}

}  // namespace

Expected<std::vector<CpuTime>> parse_cpu_stat(std::string_view text) {
  std::vector<CpuTime> times;
  // Their end is the first line of another kind.
  bool is_whole = false;
  for (const std::string_view line : split(text, '\n')) {
    is_whole = !times.empty() && !line.empty() && !kName.starts_with(line.substr(0, kName.size()));
    if (is_whole) break;
    if (!line.starts_with(kName) || line.starts_with("cpu ")) continue;
    DLP_TRY(const CpuTime time, parse_cpu(line));
    times.push_back(time);
  }
  if (!is_whole) return malformed(kFile, "cut off", text);
  return times;
}

}  // namespace dlprobe
