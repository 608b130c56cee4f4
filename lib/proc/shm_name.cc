#include "lib/proc/shm_name.h"

#include <algorithm>

#include "lib/base/parse.h"

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

std::string_view shm_base_name(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

ShmName parse_shm_name(std::string_view name) {
  name = shm_base_name(name);
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
