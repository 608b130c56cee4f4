#include "lib/proc/cgroup_cpu.h"

#include <cstdint>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

std::optional<double> share_of(std::optional<int64_t> quota_us, std::optional<int64_t> period_us) {
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return static_cast<double>(*quota_us) / static_cast<double>(*period_us);
}

}  // namespace

Expected<std::optional<double>> parse_cpu_max(std::string_view text) {
  constexpr std::string_view kFile = "cpu.max";
  if (!text.ends_with('\n')) return malformed(kFile, "cut off", text);
  const auto fields = split_fields(trim(text));
  if (fields.size() != 2) return malformed(kFile, "not a quota and a period", text);
  if (fields[0] == "max") return std::optional<double>();
  const auto share = share_of(parse_int<int64_t>(fields[0]), parse_int<int64_t>(fields[1]));
  if (!share) return malformed(kFile, "not a quota and a period", text);
  return share;
}

Expected<std::optional<double>> parse_cpu_quota_v1(std::string_view quota,
                                                   std::string_view period) {
  constexpr std::string_view kFile = "cpu.cfs_quota_us";
  if (!quota.ends_with('\n')) return malformed(kFile, "cut off", quota);
  const auto quota_us = parse_int<int64_t>(trim(quota));
  if (quota_us == -1) return std::optional<double>();
  const auto share = share_of(quota_us, parse_int<int64_t>(trim(period)));
  if (!share) return malformed(kFile, "not a quota and a period", quota);
  return share;
}

}  // namespace dlprobe
