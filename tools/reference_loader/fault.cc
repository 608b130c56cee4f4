#include "tools/reference_loader/fault.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>
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

Expected<uint64_t> worker_of(const Fault& fault, const LoaderPlan& plan) {
  const uint64_t worker = fault.number("worker", 0);
  if (std::cmp_less(worker, plan.workers)) return worker;
  return failure(ErrorCode::kInvalid, "worker=" + std::to_string(worker) +
                                          ": the workers are numbered from 0 to " +
                                          std::to_string(plan.workers - 1));
}

Expected<FaultEffects> plan_fd_leak(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects;
  DLP_TRY(const uint64_t worker, worker_of(fault, plan));
  effects.open_files = fault.number("limit", 128);
  effects.leak_per_batch = fault.number("count", 16);
  effects.leak_kind = fault.word("kind", "file");
  effects.leak_after = static_cast<int>(fault.number("after", 4));
  effects.leak_worker = static_cast<int>(worker);
  const uint64_t batches_of_worker = effects.open_files / effects.leak_per_batch + 2;
  effects.needs_batches =
      effects.leak_after + static_cast<int>(batches_of_worker) * plan.workers + 2 * in_flight(plan);
  return effects;
}

// A segment that the training loop keeps is a descriptor of the main process, and room in /dev/shm.
Expected<FaultEffects> plan_kept_batches(const Fault& fault, const LoaderPlan& plan,
                                         const Need& need) {
  if (plan.sharing_strategy != SharingStrategy::kFileDescriptor || plan.pin_memory) {
    return failure(ErrorCode::kInvalid,
                   "only batches of file_descriptor that are not copied to pinned memory hold "
                   "descriptors; leave out --sharing-strategy file_system and --pin-memory");
  }
  constexpr uint64_t kSegmentsOfBatch = 2;
  FaultEffects effects;
  effects.open_files = fault.number("limit", 64);
  effects.keep_batches = static_cast<int>(effects.open_files / kSegmentsOfBatch) + 1;
  effects.needs_batches = effects.keep_batches + 2 * in_flight(plan);
  effects.private_mount = true;
  effects.mount_bytes =
      (static_cast<uint64_t>(effects.keep_batches) + 2) * need.batch_bytes + 2 * need.bytes;
  return effects;
}

/// The kinds that make the loader stand still; they need no /dev/shm of their own.
bool is_hang(FaultKind kind) {
  return kind >= FaultKind::kForkInheritedLock && kind <= FaultKind::kConsumerStuck;
}

/// The kinds that end a worker.
bool is_death(FaultKind kind) {
  return kind >= FaultKind::kWorkerCrashed && kind <= FaultKind::kOomKilledByCgroup;
}

bool is_growth(FaultKind kind) {
  return kind >= FaultKind::kCopyOnWriteGrowth && kind <= FaultKind::kPrefetchBacklog;
}

/// The kinds that break how workers are started, where they are not forked.
bool is_start(FaultKind kind) {
  return kind >= FaultKind::kMissingMainGuard && kind <= FaultKind::kMainModuleReimported;
}

/// Where and when it strikes.
Status choose_worker(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  DLP_TRY(const uint64_t worker, worker_of(fault, plan));
  effects.hang_after = static_cast<int>(fault.number("after", 4));
  effects.hang_worker = static_cast<int>(worker);
  effects.needs_batches = effects.hang_after + 2 * in_flight(plan);
  return {};
}

Expected<FaultEffects> plan_hang(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects;
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers nobody can wait for one another, so this fault cannot happen; "
                   "give --workers 1 or more");
  }
  DLP_CHECK(choose_worker(fault, plan, effects));
  effects.hang = fault.kind;
  effects.spins = fault.word("wait", "blocking") == "spinning";
  effects.sample_time = std::chrono::seconds(fault.number("seconds", 3600));
  return effects;
}

int signal_of(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, int>, 5> kSignals = {{{"segv", SIGSEGV},
                                                                         {"abrt", SIGABRT},
                                                                         {"fpe", SIGFPE},
                                                                         {"kill", SIGKILL},
                                                                         {"term", SIGTERM}}};
  for (const auto& [name, signal] : kSignals) {
    if (name == word) return signal;
  }
  return 0;
}

Expected<FaultEffects> plan_death(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects;
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers none can end, so this fault cannot happen; give --workers 1 or "
                   "more");
  }
  DLP_CHECK(choose_worker(fault, plan, effects));
  effects.death = fault.kind;
  const bool crashes = fault.kind == FaultKind::kWorkerCrashed;
  effects.death_signal = signal_of(fault.word("signal", crashes ? "segv" : "kill"));
  const uint64_t code = fault.number("code", 3);
  if (code > 255) {
    return failure(ErrorCode::kInvalid, "code=" + std::to_string(code) + " is above 255");
  }
  effects.exit_code = static_cast<int>(code);
  if (fault.kind != FaultKind::kOomKilledByCgroup) return effects;
  // With what the loader itself needs that is more than the limit.
  effects.grow_bytes = fault.number("limit", 0);
  if (effects.grow_bytes > 0) return effects;
  return failure(ErrorCode::kInvalid,
                 "this fault wants a cgroup with a memory limit around the loader: dlprobe makes "
                 "one; of a group of your own give the limit, oom-killed-by-cgroup:limit=SIZE");
}

void plan_backlog(const LoaderPlan& plan, uint64_t seconds, FaultEffects& effects) {
  const ShmForecast forecast = forecast_shm(plan, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  const uint64_t batches = effects.memory_rate * seconds / forecast.batch_bytes + 1;
  effects.ahead = static_cast<int>(std::min<uint64_t>(batches, 100'000)) + in_flight(plan);
  effects.mount_bytes = (static_cast<uint64_t>(effects.ahead) + 2) * forecast.batch_bytes;
  effects.private_mount = true;
  effects.memory_rate /= static_cast<uint64_t>(plan.workers);
  effects.step_pause = std::chrono::seconds(2);
}

Expected<FaultEffects> plan_growth(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects;
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers no memory of a worker grows; give --workers 1 or more");
  }
  DLP_TRY(const uint64_t worker, worker_of(fault, plan));
  constexpr int kWithoutEnd = 1'000'000;
  effects.memory = fault.kind;
  effects.memory_worker = static_cast<int>(worker);
  effects.needs_batches = kWithoutEnd;
  effects.step_pause = std::chrono::milliseconds(20);
  uint64_t seconds = 0;
  switch (fault.kind) {
    case FaultKind::kCopyOnWriteGrowth:
      effects.shared_bytes = fault.number("size", 256 * kMiB);
      effects.memory_rate = fault.number("rate", 32 * kMiB);
      seconds = fault.number("seconds", 10);
      break;
    case FaultKind::kWorkerMemoryLeak:
      effects.memory_rate = fault.number("rate", 16 * kMiB);
      seconds = fault.number("seconds", 34);
      break;
    default:
      effects.memory_rate = fault.number("rate", 32 * kMiB);
      seconds = fault.number("seconds", 40);
      plan_backlog(plan, seconds, effects);
      break;
  }
  effects.lasts = std::chrono::seconds(seconds);
  return effects;
}

Expected<FaultEffects> plan_teams(const Fault& fault, const LoaderPlan& plan) {
  constexpr uint64_t kLeast = 4;
  constexpr uint64_t kMost = 256;
  if (plan.workers == 0) {
    return failure(
        ErrorCode::kInvalid,
        "without workers there are no teams of threads in them; give --workers 1 or more");
  }
  const auto cpus = static_cast<uint64_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const uint64_t threads = fault.number("threads", std::max(cpus, kLeast));
  if (threads > kMost) {
    return failure(ErrorCode::kInvalid,
                   "threads=" + std::to_string(threads) + " is above " + std::to_string(kMost));
  }
  FaultEffects effects;
  effects.worker_threads = static_cast<int>(threads);
  return effects;
}

Expected<FaultEffects> plan_start(const Fault& fault, const LoaderPlan& plan) {
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers none is started, so this fault cannot happen; give --workers 1 "
                   "or more");
  }
  FaultEffects effects;
  effects.start = fault.kind;
  if (fault.kind != FaultKind::kMainModuleReimported) return effects;
  effects.own_work = std::chrono::seconds(fault.number("seconds", 2));
  effects.own_memory = fault.number("memory", 64 * kMiB);
  return effects;
}

Expected<FaultEffects> plan_shm(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects;
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers nothing is shared, so no fault of shared memory can happen; "
                   "give --workers 1 or more");
  }
  if (fault.kind == FaultKind::kFdLeakInWorker) return plan_fd_leak(fault, plan);
  const ShmForecast forecast = forecast_shm(plan, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  const Need need{forecast.batch_bytes, forecast.batches, forecast.bytes};
  if (fault.kind == FaultKind::kBatchesKeptByConsumer) return plan_kept_batches(fault, plan, need);
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
    default:  // none of shared memory
      break;
  }
  if (effects.abandon_every > 0 && plan.sharing_strategy != SharingStrategy::kFileSystem) {
    return failure(ErrorCode::kInvalid,
                   "under file_descriptor the segments of a killed worker are freed at once; give "
                   "--sharing-strategy file_system, or shm-leak:mode=keep");
  }
  return effects;
}

}  // namespace

Expected<FaultEffects> effects_of(const Fault& fault, const LoaderPlan& plan) {
  if (fault.kind == FaultKind::kNone) return FaultEffects();
  if (is_hang(fault.kind)) return plan_hang(fault, plan);
  if (is_death(fault.kind)) return plan_death(fault, plan);
  if (is_growth(fault.kind)) return plan_growth(fault, plan);
  if (fault.kind == FaultKind::kThreadOversubscription) return plan_teams(fault, plan);
  if (is_start(fault.kind)) return plan_start(fault, plan);
  return plan_shm(fault, plan);
}

}  // namespace dlprobe::loader
