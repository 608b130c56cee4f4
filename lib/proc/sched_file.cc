#include "lib/proc/sched_file.h"

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

// "     42218602.834382": milliseconds, always with six digits behind the point.
std::optional<uint64_t> parse_milliseconds(std::string_view text) {
  constexpr size_t kDigits = 6;
  const std::string_view number = trim(text);
  const size_t point = number.find('.');
  if (point == std::string_view::npos || number.size() != point + 1 + kDigits) return std::nullopt;
  const auto whole = parse_int<uint64_t>(number.substr(0, point));
  const auto part = parse_int<uint64_t>(number.substr(point + 1));
  constexpr uint64_t kMost = UINT64_MAX / kMillisecond - 1;
  if (!whole || !part || *whole > kMost) return std::nullopt;
  return *whole * kMillisecond + *part;
}

}  // namespace

Expected<uint64_t> parse_sched_file(std::string_view text) {
  constexpr std::string_view kKey = "\nse.exec_start ";
  const size_t key = text.find(kKey);
  const size_t colon = key == std::string_view::npos ? key : text.find(':', key);
  const size_t end = colon == std::string_view::npos ? colon : text.find('\n', colon);
  if (end == std::string_view::npos) {
    return malformed("/proc/PID/sched", "no whole line se.exec_start", text);
  }
  const auto clock = parse_milliseconds(text.substr(colon + 1, end - colon - 1));
  if (!clock) return malformed("/proc/PID/sched", "se.exec_start is no time", text.substr(key));
  return *clock;
}

}  // namespace dlprobe
