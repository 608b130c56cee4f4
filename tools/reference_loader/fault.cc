#include "tools/reference_loader/fault.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lib/base/units.h"
#include "lib/model/shm_forecast.h"

namespace dlprobe::loader {
namespace {

/// The numbers that the effects are worked out from.
struct Need {
  uint64_t batch_bytes;
  uint64_t batches;
  uint64_t bytes;
};

int in_flight(const LoaderPlan& plan) {
  return plan.workers * plan.prefetch_factor;
}

/// A mount that takes everything but the last batch of full prefetch. The pin-memory thread empties
/// /dev/shm as fast as it fills, so there it must not even take one.
uint64_t almost_enough(const Need& need, const LoaderPlan& plan) {
  const uint64_t half = need.batch_bytes / 2;
  return plan.pin_memory ? half : need.bytes - half;
}

void stall(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  effects.stall_after = static_cast<int>(fault.number("after", 8));
  effects.needs_batches = effects.stall_after + 2 * in_flight(plan);
}

// Room for all that is in flight, but not for two batches more that the training loop keeps. What
// it keeps of a pinned batch is not in shared memory: there the mount itself is too small.
void keep_two(const Fault& fault, const Need& need, const LoaderPlan& plan, FaultEffects& effects) {
  effects.keep_batches = plan.pin_memory ? 0 : 2;
  effects.mount_bytes = fault.number(
      "size", plan.pin_memory ? almost_enough(need, plan) : need.bytes + need.batch_bytes / 2);
}

void plan_leak(const Fault& fault, const LoaderPlan& plan, const Need& need,
               FaultEffects& effects) {
  const auto times = static_cast<int>(fault.number("times", 3));
  const auto after = static_cast<int>(fault.number("after", 8));
  const bool by_file_system = plan.sharing_strategy == SharingStrategy::kFileSystem;
  if (fault.word("mode", by_file_system ? "killed-worker" : "keep") == "keep") {
    effects.keep_batches = times * static_cast<int>(need.batches);
    effects.needs_batches = effects.keep_batches + 2 * in_flight(plan);
  } else {
    effects.abandon_every = after;
    effects.abandon_times = times;
    effects.needs_batches = after * (times + 2);
  }
  effects.mount_bytes = fault.number("size", need.bytes * (static_cast<uint64_t>(times) + 2));
}

void plan_litter(const Fault& fault, const Need& need, FaultEffects& effects) {
  if (fault.kind == FaultKind::kShmStaleFiles) {
    effects.stale_files = fault.number("files", 8);
    effects.stale_bytes = fault.number("bytes", 32 * kMiB);
  } else {
    effects.stale_semaphores = fault.number("count", 11);
  }
  effects.mount_bytes = fault.number("size", effects.stale_bytes + 2 * need.bytes + kMiB);
}

/// The kinds that make the loader stand still; they need no /dev/shm of their own.
bool is_hang(FaultKind kind) {
  return kind >= FaultKind::kForkInheritedLock;
}

Expected<FaultEffects> plan_hang(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects;
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers nobody can wait for one another, so this fault cannot happen; "
                   "give --workers 1 or more");
  }
  const uint64_t worker = fault.number("worker", 0);
  if (worker >= static_cast<uint64_t>(plan.workers)) {
    return failure(ErrorCode::kInvalid, "worker=" + std::to_string(worker) +
                                            ": the workers are numbered from 0 to " +
                                            std::to_string(plan.workers - 1));
  }
  effects.hang = fault.kind;
  effects.hang_after = static_cast<int>(fault.number("after", 4));
  effects.hang_worker = static_cast<int>(worker);
  effects.needs_batches = effects.hang_after + 2 * in_flight(plan);
  effects.spins = fault.word("wait", "blocking") == "spinning";
  effects.sample_time = std::chrono::seconds(fault.number("seconds", 3600));
  return effects;
}

}  // namespace

Expected<FaultEffects> effects_of(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects;
  if (fault.kind == FaultKind::kNone) return effects;
  if (is_hang(fault.kind)) return plan_hang(fault, plan);
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers nothing is shared, so no fault of shared memory can happen; "
                   "give --workers 1 or more");
  }
  const ShmForecast forecast = forecast_shm(plan, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  const Need need{forecast.batch_bytes, forecast.batches, forecast.bytes};
  effects.private_mount = true;
  switch (fault.kind) {
    case FaultKind::kShmTooSmall:
      stall(fault, plan, effects);
      effects.mount_bytes = fault.number("size", std::min(64 * kMiB, need.bytes / 2));
      break;
    case FaultKind::kShmExhausted:
      stall(fault, plan, effects);
      effects.ramp_up = true;
      effects.sparse_segments = fault.word("mode", "error") == "sigbus";
      keep_two(fault, need, plan, effects);
      break;
    case FaultKind::kBatchLostInWorker:
      stall(fault, plan, effects);
      effects.ramp_up = true;
      effects.share_in_feeder = true;
      effects.lost_batch_limit = std::chrono::seconds(fault.number("seconds", 20));
      keep_two(fault, need, plan, effects);
      break;
    case FaultKind::kShmInodesExhausted:
      stall(fault, plan, effects);
      effects.ramp_up = true;
      // Two files a batch, and the root of the mount; one batch less than full prefetch.
      effects.mount_inodes =
          fault.number("inodes", plan.pin_memory ? 2 : 1 + 2 * (need.batches - 1));
      effects.mount_bytes = 2 * need.bytes + kMiB;
      break;
    case FaultKind::kShmHeldByAnotherJob:
      stall(fault, plan, effects);
      effects.mount_bytes = fault.number("size", 2 * need.bytes);
      effects.held_bytes = fault.number(
          "bytes", effects.mount_bytes - std::min(effects.mount_bytes / 2, need.bytes / 2));
      break;
    case FaultKind::kShmLeak:
      plan_leak(fault, plan, need, effects);
      break;
    case FaultKind::kShmStaleFiles:
    case FaultKind::kLeakedSemaphores:
      plan_litter(fault, need, effects);
      break;
    default:  // of plan_hang
      break;
  }
  if (effects.abandon_every > 0 && plan.sharing_strategy != SharingStrategy::kFileSystem) {
    return failure(ErrorCode::kInvalid,
                   "under file_descriptor the segments of a killed worker are freed at once; give "
                   "--sharing-strategy file_system, or shm-leak:mode=keep");
  }
  return effects;
}

}  // namespace dlprobe::loader
