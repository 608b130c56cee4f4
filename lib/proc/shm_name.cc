#include "lib/proc/shm_name.h"

#include <algorithm>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"

namespace dlprobe {
namespace {

std::optional<int32_t> torch_creator(std::string_view rest) {
  const auto parts = split(rest, '_');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const bool all_numbers = std::ranges::all_of(
      parts, [](std::string_view part) { return parse_int<uint64_t>(part).has_value(); });
  if (!all_numbers) return std::nullopt;
  const auto pid = parse_int<int32_t>(parts[0]);
  return pid && *pid > 0 ? pid : std::nullopt;
}

}  // namespace

ShmName parse_shm_name(std::string_view name) {
  name = base_name(without_deleted(name));
  constexpr std::string_view kTorch = "torch_";
  if (name.starts_with(kTorch)) {
    if (const auto pid = torch_creator(name.substr(kTorch.size()))) {
      return {.kind = SegmentKind::kTorchTensor, .creator_pid = pid};
    }
  }
  if (name.starts_with("sem.mp-")) return {.kind = SegmentKind::kPythonSemaphore};
  if (name.starts_with("sem.")) return {.kind = SegmentKind::kSemaphore};
  if (name.starts_with("psm_")) return {.kind = SegmentKind::kPythonShared};
  return {};
}

}  // namespace dlprobe
