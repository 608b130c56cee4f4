#include "lib/proc/pid_limits.h"

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPidLimits = "/proc/PID/limits";

Expected<std::optional<uint64_t>> parse_one(std::string_view limit) {
  if (limit == "unlimited") return std::optional<uint64_t>();
  const auto value = parse_int<uint64_t>(limit);
  if (!value) return malformed(kPidLimits, "not a limit", limit);
  return std::optional<uint64_t>(value);
}

Expected<Limit> parse_limit(std::string_view text, std::string_view name) {
  constexpr std::string_view kLastName = "Max realtime timeout";
  std::string_view line;
  bool whole = false;
  for_each_line(text, [&](std::string_view candidate) {
    if (candidate.starts_with(name)) line = candidate.substr(name.size());
    if (candidate.starts_with(kLastName)) whole = true;
  });
  const auto fields = split_fields(line);
  if (!whole || !text.ends_with('\n') || fields.size() != 3) {
    return malformed(kPidLimits, "cut off, or without " + std::string(name), text);
  }
  Limit limit;
  DLP_TRY(limit.soft, parse_one(fields[0]));
  DLP_TRY(limit.hard, parse_one(fields[1]));
  return limit;
}

}  // namespace

Expected<Limit> parse_open_files_limit(std::string_view text) {
  return parse_limit(text, "Max open files");
}

Expected<Limit> parse_processes_limit(std::string_view text) {
  return parse_limit(text, "Max processes");
}

Expected<Limit> parse_cpu_time_limit(std::string_view text) {
  return parse_limit(text, "Max cpu time");
}

Expected<Limit> parse_stack_limit(std::string_view text) {
  return parse_limit(text, "Max stack size");
}

Expected<Limit> parse_file_size_limit(std::string_view text) {
  return parse_limit(text, "Max file size");
}

}  // namespace dlprobe
