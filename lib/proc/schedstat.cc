#include "lib/proc/schedstat.h"

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {

Expected<SchedStat> parse_schedstat(std::string_view text) {
  constexpr std::string_view kFile = "/proc/PID/task/TID/schedstat";
  if (!text.ends_with('\n')) return malformed(kFile, "cut off", text);
  const auto fields = split_fields(trim(text));
  if (fields.size() != 3) return malformed(kFile, "not three numbers", text);
  const auto cpu = parse_int<uint64_t>(fields[0]);
  const auto queued = parse_int<uint64_t>(fields[1]);
  const auto slices = parse_int<uint64_t>(fields[2]);
  if (!cpu || !queued || !slices) return malformed(kFile, "not three numbers", text);
  return SchedStat{.cpu_ns = *cpu, .queued_ns = *queued, .timeslices = *slices};
}

}  // namespace dlprobe
