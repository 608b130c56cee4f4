#include "tools/reference_loader/memory_check.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/model/shm_forecast.h"

namespace dlprobe::loader {
namespace {

/// MemAvailable of /proc/meminfo.
std::optional<uint64_t> available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    const auto fields = split_fields(line);
    if (fields.size() < 2 || fields[0] != "MemAvailable:") continue;
    if (const auto kilobytes = parse_int<uint64_t>(fields[1])) return *kilobytes * 1024;
  }
  return std::nullopt;
}

/// What the machine's /dev/shm has room for: more cannot be taken, a shortage is an error.
uint64_t free_shm_bytes(uint64_t otherwise) {
  struct statvfs status{};
  if (statvfs("/dev/shm", &status) != 0 || status.f_blocks == 0) return otherwise;
  return uint64_t{status.f_bavail} * status.f_frsize;
}

uint64_t most_bytes(const LoaderPlan& plan, const FaultEffects& effects) {
  const auto* start = effects.as<StartFault>();
  if (start != nullptr && start->own_memory > 0) {
    // Where workers are forked they share it; it must fit under every start method.
    const auto processes = static_cast<uint64_t>(plan.workers) + 1;
    return start->own_memory > UINT64_MAX / processes ? UINT64_MAX : start->own_memory * processes;
  }
  const ShmForecast forecast = forecast_shm(plan, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  if (plan.workers == 0) return 2 * forecast.batch_bytes;
  const auto* death = effects.as<Death>();
  if (death != nullptr && death->grow_bytes > 0) return death->grow_bytes;
  if (!effects.shm) return std::min(forecast.bytes, free_shm_bytes(forecast.bytes));
  const bool piles_up = effects.loop.keep_batches > 0 || effects.loop.abandon_times > 0 ||
                        effects.as<Growth>() != nullptr;
  const uint64_t litter = effects.litter.bytes + effects.litter.held_bytes;
  const uint64_t room = effects.shm->size_bytes;
  return std::min(room, piles_up ? room : litter + forecast.bytes);
}

}  // namespace

Status check_memory(const LoaderPlan& plan, const FaultEffects& effects) {
  const auto available = available_bytes();
  if (!available) return {};
  const uint64_t most = most_bytes(plan, effects);
  const uint64_t room = *available / 5 * 4;  // the rest of the machine lives on
  if (most <= room) return {};
  return failure(ErrorCode::kInvalid,
                 fmt::format("these options take up to {} of memory, more than four fifths ({}) of "
                             "the {} available: give a smaller --batch-size, --prefetch-factor, "
                             "--workers or fault",
                             format_bytes(most), format_bytes(room), format_bytes(*available)));
}

}  // namespace dlprobe::loader
