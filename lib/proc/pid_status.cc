#include "lib/proc/pid_status.h"

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPidStatus = "/proc/PID/status";

template <class T>
std::optional<T> find_int(std::string_view text, std::string_view key, int base = 10) {
  const auto value = find_value(text, key);
  if (!value) return std::nullopt;
  return parse_int<T>(value->substr(0, value->find_first_of(" \t")), base);
}

std::optional<std::vector<int32_t>> parse_pids(std::string_view text) {
  std::vector<int32_t> pids;
  for (const std::string_view field : split_fields(text)) {
    const auto pid = parse_int<int32_t>(field);
    if (!pid) return std::nullopt;
    pids.push_back(*pid);
  }
  return pids;
}

}  // namespace

Expected<PidStatus> parse_pid_status(std::string_view text) {
  const auto pid = find_int<int32_t>(text, "Pid");
  const auto tracer = find_int<int32_t>(text, "TracerPid");
  const auto uid = find_int<uint32_t>(text, "Uid");
  const auto threads = find_int<int32_t>(text, "Threads");
  const auto caught = find_int<uint64_t>(text, "SigCgt", 16);
  if (!pid || !tracer || !uid || !threads || !caught) {
    return malformed(kPidStatus, "a line is missing", text);
  }
  if (!find_int<uint64_t>(text, "nonvoluntary_ctxt_switches")) {
    return malformed(kPidStatus, "cut off", text);
  }
  PidStatus status{.tgid = find_int<int32_t>(text, "Tgid").value_or(*pid),
                   .tracer_pid = *tracer,
                   .uid = *uid,
                   .threads = *threads,
                   .signals_caught = *caught,
                   .swap_bytes = find_kib(text, "VmSwap"),
                   .page_table_bytes = find_kib(text, "VmPTE")};
  const auto namespace_pids = find_value(text, "NSpid");  // 4.1+, with CONFIG_PID_NS
  if (!namespace_pids) {
    status.namespace_pids = {*pid};
    return status;
  }
  auto pids = parse_pids(*namespace_pids);
  if (!pids) return malformed(kPidStatus, "NSpid", *namespace_pids);
  status.namespace_pids = std::move(*pids);
  return status;
}

bool has_capability(std::string_view text, int capability) {
  const uint64_t effective = find_int<uint64_t>(text, "CapEff", 16).value_or(0);
  return (effective >> static_cast<unsigned>(capability) & 1U) != 0;
}

}  // namespace dlprobe
