#include "lib/proc/fdinfo.h"

#include <algorithm>
#include <array>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kFdinfo = "/proc/PID/fdinfo/FD";

/// "tfd:        5 events:       19 data: ..." gives 5.
Expected<std::vector<int32_t>> parse_epoll_targets(std::string_view text) {
  std::vector<int32_t> targets;
  bool valid = true;
  for_each_line(text, [&](std::string_view line) {
    constexpr std::string_view kKey = "tfd:";
    if (!line.starts_with(kKey)) return;
    const auto fields = split_fields(line.substr(kKey.size()));
    const auto fd = fields.empty() ? std::nullopt : parse_int<int32_t>(fields[0]);
    valid = valid && fd.has_value();
    targets.push_back(fd.value_or(-1));
  });
  if (!valid) return malformed(kFdinfo, "tfd", text);
  return targets;
}

}  // namespace

Expected<FdInfo> parse_fdinfo(std::string_view text) {
  constexpr auto kLocks = std::to_array<std::string_view>({" FLOCK ", " POSIX ", " OFDLCK "});
  const auto position = find_value(text, "pos");
  const auto flags = find_value(text, "flags");
  const auto position_value = position ? parse_int<uint64_t>(*position) : std::nullopt;
  const auto flags_value = flags ? parse_int<uint64_t>(*flags, 8) : std::nullopt;
  if (!position_value || !flags_value || !text.ends_with('\n')) {
    return malformed(kFdinfo, "cut off or a line is missing", text);
  }
  FdInfo info{.position = *position_value, .flags = *flags_value};
  for_each_line(text, [&](std::string_view line) {
    const bool is_lock =
        std::ranges::any_of(kLocks, [&](auto kind) { return line.contains(kind); });
    if (!line.starts_with("lock:") || !is_lock) return;
    info.holds_lock = true;
    // "lock:	1: FLOCK  ADVISORY  WRITE 4711 fe:00:1860237 0 EOF"
    const auto fields = split_fields(line);
    constexpr size_t kTaker = 5;
    const auto taker = fields.size() > kTaker ? parse_int<int32_t>(fields[kTaker]) : std::nullopt;
    if (taker) info.lock_takers.push_back(*taker);
  });
  if (const auto in_flight = find_value(text, "scm_fds")) {
    info.scm_fds = parse_int<uint64_t>(*in_flight);
    if (!info.scm_fds) return malformed(kFdinfo, "scm_fds", *in_flight);
  }
  if (const auto id = find_value(text, "eventfd-id"))
    info.eventfd_id = parse_int<uint64_t>(*id).value_or(0);
  DLP_TRY(info.epoll_targets, parse_epoll_targets(text));
  return info;
}

}  // namespace dlprobe
