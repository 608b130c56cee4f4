#include "tools/reference_loader/fault.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/model/shm_forecast.h"

namespace dlprobe::loader {
namespace {

using Type = FaultParameter::Type;
constexpr FaultParameter kSize = {"size", Type::kSize, "", "size of the private /dev/shm"};
constexpr FaultParameter kAfter = {"after", Type::kCount, "",
                                   "batches before it happens (default 8)"};
constexpr FaultParameter kTimes = {"times", Type::kCount, "", "how often, or how much (default 3)"};

constexpr std::array kTooSmall = {
    FaultParameter{"size", Type::kSize, "",
                   "size of the private /dev/shm (default 64m, or half of the forecast if less)"}};
constexpr std::array kExhausted = {
    kAfter, kSize,
    FaultParameter{
        "mode", Type::kWord, "error|sigbus",
        "error: pages are reserved, as torch >= 2.9 does (default); sigbus: sparse files"}};
constexpr std::array kStale = {
    kSize, FaultParameter{"files", Type::kCount, "", "how many (default 8)"},
    FaultParameter{"bytes", Type::kSize, "", "of all of them (default 32m)"}};
constexpr std::array kLeak = {
    kSize, kAfter, kTimes,
    FaultParameter{"mode", Type::kWord, "killed-worker|keep",
                   "killed-worker: a worker is killed and its named segments stay (default under "
                   "file_system); keep: the training loop keeps batches"}};
constexpr std::array kHeld = {kSize, FaultParameter{"bytes", Type::kSize, "",
                                                    "held by the other job (default: leaves half "
                                                    "of what the loader needs)"}};
constexpr std::array kLost = {
    kAfter, kSize,
    FaultParameter{"seconds", Type::kCount, "", "how long the loader hangs (default 20)"}};
constexpr std::array kSemaphores = {
    kSize, FaultParameter{"count", Type::kCount, "", "how many are left behind (default 11)"}};
constexpr FaultParameter kHangAfter = {"after", Type::kCount, "",
                                       "batches before it happens (default 4)"};
constexpr FaultParameter kWorker = {"worker", Type::kIndex, "",
                                    "number of the worker that it happens to (default 0)"};
constexpr std::array kHangOfWorker = {kHangAfter, kWorker};
constexpr std::array kHangOfTrainer = {kHangAfter};
constexpr std::array kLostPool = {
    kHangAfter, kWorker,
    FaultParameter{"wait", Type::kWord, "blocking|spinning",
                   "blocking: the worker sleeps (default); spinning: it turns round at 100 % of a "
                   "core, OMP_WAIT_POLICY=active (wants two cores)"}};
constexpr std::array kSlow = {
    kHangAfter, kWorker,
    FaultParameter{"seconds", Type::kCount, "", "that one sample takes (default 3600)"}};
constexpr std::array kInodes = {
    kAfter, FaultParameter{"inodes", Type::kCount, "", "nr_inodes of the private /dev/shm"}};

constexpr std::array kFaults = {
    FaultInfo{FaultKind::kShmTooSmall, "shm-too-small",
              "/dev/shm is smaller than what the loader keeps in flight", kTooSmall},
    FaultInfo{FaultKind::kShmExhausted, "shm-exhausted",
              "the training loop keeps two batches, prefetching fills /dev/shm, the next batch "
              "does not fit",
              kExhausted},
    FaultInfo{FaultKind::kShmStaleFiles, "shm-stale-files",
              "a process that was killed left named segments in /dev/shm", kStale},
    FaultInfo{FaultKind::kShmLeak, "shm-leak",
              "segments pile up that nothing frees while the job lives", kLeak},
    FaultInfo{FaultKind::kShmHeldByAnotherJob, "shm-held-by-another-job",
              "a live process of another session holds most of /dev/shm", kHeld},
    FaultInfo{FaultKind::kBatchLostInWorker, "batch-lost-in-worker",
              "a worker's send thread meets a full /dev/shm and drops the batch; all wait for it",
              kLost},
    FaultInfo{FaultKind::kLeakedSemaphores, "leaked-semaphores",
              "a process that was killed left named semaphores in /dev/shm", kSemaphores},
    FaultInfo{FaultKind::kShmInodesExhausted, "shm-inodes-exhausted",
              "/dev/shm has free space but no inode left for a new file", kInodes},
    FaultInfo{FaultKind::kForkInheritedLock, "fork-inherited-lock",
              "a worker wants a mutex that another thread of the main process held at the fork",
              kHangOfWorker},
    FaultInfo{FaultKind::kForkLostThreadPool, "fork-lost-thread-pool",
              "a worker uses the OpenMP threads that the main process had started before the fork",
              kLostPool},
    FaultInfo{FaultKind::kLockCycle, "lock-cycle",
              "two threads of a worker take two mutexes in opposite order", kHangOfWorker},
    FaultInfo{FaultKind::kLockHolderDead, "lock-holder-dead",
              "a worker wants a mutex in shared memory that a killed process had taken",
              kHangOfWorker},
    FaultInfo{FaultKind::kPipeWithoutPeer, "pipe-without-peer",
              "a worker reads from a pipe whose writer was killed, and holds its other end itself",
              kHangOfWorker},
    FaultInfo{FaultKind::kWorkerStopped, "worker-stopped", "a worker is stopped by SIGSTOP",
              kHangOfWorker},
    FaultInfo{FaultKind::kSlowSample, "slow-sample", "one sample of a worker takes very long",
              kSlow},
    FaultInfo{FaultKind::kConsumerStuck, "consumer-stuck",
              "the training loop waits for something else while all batches are ready",
              kHangOfTrainer},
};

std::string known_faults() {
  std::string text;
  for (const FaultInfo& info : kFaults) {
    text += (text.empty() ? "" : ", ") + std::string(info.name);
  }
  return text;
}

std::string known_parameters(const FaultInfo& info) {
  std::string text;
  for (const FaultParameter& parameter : info.parameters) {
    text += (text.empty() ? "" : ", ") + std::string(parameter.key);
  }
  return text;
}

Status check_value(const FaultParameter& parameter, std::string_view value) {
  const std::string shown = std::string(parameter.key) + "=" + std::string(value);
  if (parameter.type == Type::kSize) {
    DLP_TRY(const uint64_t size, parse_size(value));
    if (size < 4096) return failure(ErrorCode::kInvalid, shown + " is less than a page");
    return {};
  }
  if (parameter.type == Type::kCount) {
    const auto count = parse_int<uint64_t>(value);
    if (count && *count >= 1 && *count <= 1'000'000) return {};
    return failure(ErrorCode::kInvalid, shown + " is not a number from 1 to 1000000");
  }
  if (parameter.type == Type::kIndex) {
    const auto index = parse_int<uint64_t>(value);
    if (index && *index <= 1'000'000) return {};
    return failure(ErrorCode::kInvalid, shown + " is not a number from 0 to 1000000");
  }
  for (const std::string_view word : split(parameter.words, '|')) {
    if (word == value) return {};
  }
  return failure(ErrorCode::kInvalid,
                 shown + " is not known; it may be " + std::string(parameter.words));
}

Status add_parameter(const FaultInfo& info, std::string_view text, Fault& fault) {
  const size_t equals = text.find('=');
  const std::string_view key = text.substr(0, equals);
  const auto* const parameter =
      std::ranges::find(info.parameters, key, &FaultParameter::key).base();
  if (equals == std::string_view::npos ||
      parameter == info.parameters.data() + info.parameters.size()) {
    return failure(ErrorCode::kInvalid,
                   "'" + std::string(text) + "' is not a parameter of " + std::string(info.name) +
                       "; give KEY=VALUE with one of: " + known_parameters(info));
  }
  DLP_CHECK(check_value(*parameter, text.substr(equals + 1)));
  fault.parameters[std::string(key)] = text.substr(equals + 1);
  return {};
}

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

std::span<const FaultInfo> all_faults() {
  return kFaults;
}

uint64_t Fault::number(std::string_view key, uint64_t otherwise) const {
  const auto found = parameters.find(key);
  return found == parameters.end() ? otherwise : parse_size(found->second).value_or(otherwise);
}

std::string Fault::word(std::string_view key, std::string_view otherwise) const {
  const auto found = parameters.find(key);
  return found == parameters.end() ? std::string(otherwise) : found->second;
}

Expected<Fault> parse_fault(std::string_view text) {
  Fault fault;
  if (text.empty()) return fault;
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto* const info = std::ranges::find(kFaults, name, &FaultInfo::name);
  if (info == kFaults.end()) {
    return failure(ErrorCode::kInvalid, "'" + std::string(name) +
                                            "' is not a fault that the reference loader can make; "
                                            "it can make: " +
                                            known_faults());
  }
  fault.kind = info->kind;
  if (colon == std::string_view::npos) return fault;
  for (const std::string_view parameter : split(text.substr(colon + 1), ',')) {
    DLP_CHECK(add_parameter(*info, parameter, fault));
  }
  return fault;
}

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
