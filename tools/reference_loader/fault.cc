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
  effects.loop.stall_after = static_cast<int>(fault.number("after", 8));
  effects.needs_batches = effects.loop.stall_after + 2 * in_flight(plan);
}

// Room for all that is in flight, but not for two batches more that the training loop keeps. What
// it keeps of a pinned batch is not in shared memory: there the mount itself is too small.
void keep_two(const Fault& fault, const Need& need, const LoaderPlan& plan, FaultEffects& effects) {
  effects.loop.keep_batches = plan.pin_memory ? 0 : 2;
  effects.shm.emplace().size_bytes = fault.number(
      "size", plan.pin_memory ? almost_enough(need, plan) : need.bytes + need.batch_bytes / 2);
}

void plan_leak(const Fault& fault, const LoaderPlan& plan, const Need& need,
               FaultEffects& effects) {
  const auto times = static_cast<int>(fault.number("times", 3));
  const auto after = static_cast<int>(fault.number("after", 8));
  const bool by_file_system = plan.sharing_strategy == SharingStrategy::kFileSystem;
  if (fault.word("mode", by_file_system ? "killed-worker" : "keep") == "keep") {
    effects.loop.keep_batches = times * static_cast<int>(need.batches);
    effects.needs_batches = effects.loop.keep_batches + 2 * in_flight(plan);
  } else {
    effects.loop.abandon_every = after;
    effects.loop.abandon_times = times;
    effects.needs_batches = after * (times + 2);
  }
  effects.shm.emplace().size_bytes =
      fault.number("size", need.bytes * (static_cast<uint64_t>(times) + 2));
}

void plan_litter(const Fault& fault, const Need& need, FaultEffects& effects) {
  if (fault.kind == FaultKind::kShmStaleFiles) {
    effects.litter.files = fault.number("files", 8);
    effects.litter.bytes = fault.number("bytes", 32 * kMiB);
  } else {
    effects.litter.semaphores = fault.number("count", 11);
  }
  effects.shm.emplace().size_bytes =
      fault.number("size", effects.litter.bytes + 2 * need.bytes + kMiB);
}

/// Where and when it strikes.
Status choose_worker(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  const uint64_t worker = fault.number("worker", 0);
  if (std::cmp_greater_equal(worker, plan.workers)) {
    return failure(ErrorCode::kInvalid, "worker=" + std::to_string(worker) +
                                            ": the workers are numbered from 0 to " +
                                            std::to_string(plan.workers - 1));
  }
  effects.after = static_cast<int>(fault.number("after", 4));
  effects.worker = static_cast<int>(worker);
  effects.needs_batches = effects.after + 2 * in_flight(plan);
  return {};
}

Status plan_fd_leak(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  DLP_CHECK(choose_worker(fault, plan, effects));
  const DescriptorLeak leak{.per_batch = fault.number("count", 16),
                            .kind = fault.word("kind", "file")};
  effects.open_files = fault.number("limit", 128);
  const uint64_t batches_of_worker = effects.open_files / leak.per_batch + 2;
  effects.needs_batches += static_cast<int>(batches_of_worker) * plan.workers;
  effects.doing = leak;
  return {};
}

// A segment that the training loop keeps is a descriptor of the main process, and room in /dev/shm.
Status plan_kept_batches(const Fault& fault, const LoaderPlan& plan, const Need& need,
                         FaultEffects& effects) {
  if (plan.sharing_strategy != SharingStrategy::kFileDescriptor || plan.pin_memory) {
    return failure(ErrorCode::kInvalid,
                   "only batches of file_descriptor that are not copied to pinned memory hold "
                   "descriptors; leave out --sharing-strategy file_system and --pin-memory");
  }
  constexpr uint64_t kSegmentsOfBatch = 2;
  effects.open_files = fault.number("limit", 64);
  const int kept = static_cast<int>(effects.open_files / kSegmentsOfBatch) + 1;
  effects.loop.keep_batches = kept;
  effects.needs_batches = kept + 2 * in_flight(plan);
  effects.shm.emplace().size_bytes =
      (static_cast<uint64_t>(kept) + 2) * need.batch_bytes + 2 * need.bytes;
  return {};
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

Status plan_hang(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  DLP_CHECK(choose_worker(fault, plan, effects));
  effects.doing = Hang{.spins = fault.word("wait", "blocking") == "spinning",
                       .sample_time = std::chrono::seconds(fault.number("seconds", 3600))};
  return {};
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

Status plan_death(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  DLP_CHECK(choose_worker(fault, plan, effects));
  const bool crashes = fault.kind == FaultKind::kWorkerCrashed;
  const uint64_t code = fault.number("code", 3);
  if (code > 255) {
    return failure(ErrorCode::kInvalid, "code=" + std::to_string(code) + " is above 255");
  }
  Death death{.signal = signal_of(fault.word("signal", crashes ? "segv" : "kill")),
              .exit_code = static_cast<int>(code)};
  const bool grows = fault.kind == FaultKind::kOomKilledByCgroup;
  // With what the loader itself needs that is more than the limit.
  if (grows) death.grow_bytes = fault.number("limit", 0);
  effects.doing = death;
  if (!grows || death.grow_bytes > 0) return {};
  return failure(ErrorCode::kInvalid,
                 "this fault wants a cgroup with a memory limit around the loader: dlprobe makes "
                 "one; of a group of your own give the limit, oom-killed-by-cgroup:limit=SIZE");
}

void plan_backlog(const LoaderPlan& plan, Growth& growth, FaultEffects& effects) {
  const ShmForecast forecast = forecast_shm(plan, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  const uint64_t batches =
      growth.rate * static_cast<uint64_t>(growth.lasts.count()) / forecast.batch_bytes + 1;
  growth.ahead = static_cast<int>(std::min<uint64_t>(batches, 100'000)) + in_flight(plan);
  effects.shm =
      PrivateShm{.size_bytes = (static_cast<uint64_t>(growth.ahead) + 2) * forecast.batch_bytes};
  growth.rate /= static_cast<uint64_t>(plan.workers);
  growth.step_pause = std::chrono::seconds(2);
}

Status plan_growth(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  constexpr int kWithoutEnd = 1'000'000;
  const bool leaks = fault.kind == FaultKind::kWorkerMemoryLeak;
  DLP_CHECK(choose_worker(fault, plan, effects));
  effects.needs_batches = kWithoutEnd;
  Growth growth{.rate = fault.number("rate", leaks ? 16 * kMiB : 32 * kMiB),
                .step_pause = std::chrono::milliseconds(20),
                .lasts = std::chrono::seconds(fault.number("seconds", leaks ? 34 : 40))};
  if (fault.kind == FaultKind::kCopyOnWriteGrowth) {
    growth.shared_bytes = fault.number("size", 256 * kMiB);
    growth.lasts = std::chrono::seconds(fault.number("seconds", 10));
  }
  if (fault.kind == FaultKind::kPrefetchBacklog) plan_backlog(plan, growth, effects);
  effects.doing = growth;
  return {};
}

Status plan_teams(const Fault& fault, FaultEffects& effects) {
  constexpr uint64_t kLeast = 4;
  constexpr uint64_t kMost = 256;
  const auto cpus = static_cast<uint64_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const uint64_t threads = fault.number("threads", std::max(cpus, kLeast));
  if (threads > kMost) {
    return failure(ErrorCode::kInvalid,
                   "threads=" + std::to_string(threads) + " is above " + std::to_string(kMost));
  }
  effects.doing = ThreadTeams{static_cast<int>(threads)};
  return {};
}

void plan_start(const Fault& fault, FaultEffects& effects) {
  StartFault start;
  if (fault.kind == FaultKind::kMainModuleReimported) {
    start.own_work = std::chrono::seconds(fault.number("seconds", 2));
    start.own_memory = fault.number("memory", 64 * kMiB);
  }
  effects.doing = start;
}

Status plan_shm(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  const ShmForecast forecast = forecast_shm(plan, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  const Need need{forecast.batch_bytes, forecast.batches, forecast.bytes};
  effects.shm.emplace();
  switch (fault.kind) {
    case FaultKind::kBatchesKeptByConsumer:
      return plan_kept_batches(fault, plan, need, effects);
    case FaultKind::kShmTooSmall:
      stall(fault, plan, effects);
      effects.shm->size_bytes = fault.number("size", std::min(64 * kMiB, need.bytes / 2));
      break;
    case FaultKind::kShmExhausted:
      stall(fault, plan, effects);
      effects.loop.ramp_up = true;
      effects.sparse_segments = fault.word("mode", "error") == "sigbus";
      keep_two(fault, need, plan, effects);
      break;
    case FaultKind::kBatchLostInWorker:
      stall(fault, plan, effects);
      effects.loop.ramp_up = true;
      effects.loop.lost_batch_limit = std::chrono::seconds(fault.number("seconds", 20));
      keep_two(fault, need, plan, effects);
      break;
    case FaultKind::kShmInodesExhausted:
      stall(fault, plan, effects);
      effects.loop.ramp_up = true;
      // Two files a batch, and the root of the mount; one batch less than full prefetch.
      effects.shm->inodes =
          fault.number("inodes", plan.pin_memory ? 2 : 1 + 2 * (need.batches - 1));
      effects.shm->size_bytes = 2 * need.bytes + kMiB;
      break;
    case FaultKind::kShmHeldByAnotherJob:
      stall(fault, plan, effects);
      effects.shm->size_bytes = fault.number("size", 2 * need.bytes);
      effects.litter.held_bytes = fault.number(
          "bytes", effects.shm->size_bytes - std::min(effects.shm->size_bytes / 2, need.bytes / 2));
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
  if (effects.loop.abandon_every > 0 && plan.sharing_strategy != SharingStrategy::kFileSystem) {
    return failure(ErrorCode::kInvalid,
                   "under file_descriptor the segments of a killed worker are freed at once; give "
                   "--sharing-strategy file_system, or shm-leak:mode=keep");
  }
  return {};
}

Status plan_kind(const Fault& fault, const LoaderPlan& plan, FaultEffects& effects) {
  if (is_hang(fault.kind)) return plan_hang(fault, plan, effects);
  if (is_death(fault.kind)) return plan_death(fault, plan, effects);
  if (is_growth(fault.kind)) return plan_growth(fault, plan, effects);
  if (fault.kind == FaultKind::kFdLeakInWorker) return plan_fd_leak(fault, plan, effects);
  if (fault.kind == FaultKind::kThreadOversubscription) return plan_teams(fault, effects);
  if (!is_start(fault.kind)) return plan_shm(fault, plan, effects);
  plan_start(fault, effects);
  return {};
}

}  // namespace

Expected<FaultEffects> effects_of(const Fault& fault, const LoaderPlan& plan) {
  FaultEffects effects{.kind = fault.kind};
  if (fault.kind == FaultKind::kNone) return effects;
  if (plan.workers == 0) {
    return failure(ErrorCode::kInvalid,
                   "without workers this fault cannot happen; give --workers 1 or more");
  }
  DLP_CHECK(plan_kind(fault, plan, effects));
  return effects;
}

}  // namespace dlprobe::loader
