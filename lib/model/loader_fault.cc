#include "lib/model/loader_fault.h"

#include <algorithm>
#include <array>

#include "lib/base/parse.h"
#include "lib/base/units.h"

namespace dlprobe {
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
constexpr std::array kSemaphoreParameters = {
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
constexpr std::array kCrash = {
    kHangAfter, kWorker,
    FaultParameter{"signal", Type::kWord, "segv|abrt|fpe", "how it crashes (default segv)"}};
constexpr std::array kExit = {
    kHangAfter, kWorker,
    FaultParameter{"code", Type::kIndex, "", "its exit code, up to 255 (default 3)"}};
constexpr std::array kKill = {
    kHangAfter, kWorker,
    FaultParameter{"signal", Type::kWord, "kill|term", "what it is sent (default kill)"}};
constexpr std::array kOom = {
    kHangAfter, kWorker,
    FaultParameter{"limit", Type::kSize, "",
                   "memory that the loader's cgroup may have (default 1g by dlprobe, which makes "
                   "that cgroup)"}};
constexpr FaultParameter kLimit = {"limit", Type::kCount, "",
                                   "soft limit of descriptors of each process (default 128)"};
constexpr std::array kFdLeak = {
    kHangAfter, kWorker, kLimit,
    FaultParameter{"kind", Type::kWord, "file|socket|pipe", "what is not closed (default file)"},
    FaultParameter{"count", Type::kCount, "", "how many descriptors for each batch (default 16)"}};
constexpr std::array kKept = {FaultParameter{
    "limit", Type::kCount, "", "soft limit of descriptors of each process (default 64)"}};
constexpr std::array kInodes = {
    kAfter, FaultParameter{"inodes", Type::kCount, "", "nr_inodes of the private /dev/shm"}};
constexpr std::array kCopies = {
    FaultParameter{"size", Type::kSize, "", "of the memory that is shared (default 256m)"},
    FaultParameter{"rate", Type::kSize, "", "that each worker copies in a second (default 32m)"},
    FaultParameter{"seconds", Type::kCount, "", "how long the loader runs (default 10)"}};
constexpr std::array kGrows = {
    kWorker, FaultParameter{"rate", Type::kSize, "", "that it keeps in a second (default 16m)"},
    FaultParameter{"seconds", Type::kCount, "", "how long the loader runs (default 34)"}};
constexpr std::array kBacklog = {
    FaultParameter{"rate", Type::kSize, "", "that all workers make in a second (default 32m)"},
    FaultParameter{"seconds", Type::kCount, "", "how long the loader runs (default 40)"}};

constexpr std::array kTeams = {FaultParameter{
    "threads", Type::kCount, "", "of the team in each worker (default: the CPUs, but at least 4)"}};
constexpr std::array kOwnWork = {
    FaultParameter{"seconds", Type::kCount, "", "that the program's own work takes (default 2)"},
    FaultParameter{"memory", Type::kSize, "", "that it takes and keeps (default 64m)"}};

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
              "a process that was killed left named semaphores in /dev/shm", kSemaphoreParameters},
    FaultInfo{FaultKind::kShmInodesExhausted, "shm-inodes-exhausted",
              "/dev/shm has free space but no inode left for a new file", kInodes},
    FaultInfo{FaultKind::kBatchesKeptByConsumer, "batches-kept-by-consumer",
              "the training loop keeps every batch, until it has no descriptor left to receive one",
              kKept},
    FaultInfo{FaultKind::kFdLeakInWorker, "fd-leak-in-worker",
              "a worker opens descriptors for each batch and does not close them, up to its limit",
              kFdLeak},
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
    FaultInfo{FaultKind::kWorkerCrashed, "worker-crashed",
              "a worker crashes: a bad memory access, abort(), a division by zero", kCrash},
    FaultInfo{FaultKind::kWorkerExited, "worker-exited", "a worker calls _exit", kExit},
    FaultInfo{FaultKind::kKilledBySignal, "killed-by-signal",
              "another process sends a worker a signal that ends it", kKill},
    FaultInfo{FaultKind::kOomKilledByCgroup, "oom-killed-by-cgroup",
              "a worker takes memory until the limit of its cgroup is reached", kOom},
    FaultInfo{FaultKind::kCopyOnWriteGrowth, "copy-on-write-growth",
              "workers write to memory that fork made them share with the main process", kCopies},
    FaultInfo{FaultKind::kWorkerMemoryLeak, "worker-memory-leak",
              "a worker keeps new memory all the time", kGrows},
    FaultInfo{FaultKind::kPrefetchBacklog, "prefetch-backlog",
              "workers run ahead of a slow training loop without a bound", kBacklog},
    FaultInfo{FaultKind::kThreadOversubscription, "thread-oversubscription",
              "a library in each worker computes with a team of threads, and all teams together "
              "have more threads than there are CPUs",
              kTeams},
    FaultInfo{FaultKind::kMissingMainGuard,
              "missing-main-guard",
              "a worker that is not forked runs the program from its beginning, comes to the line "
              "that starts workers, and is refused",
              {}},
    FaultInfo{FaultKind::kUnpicklableObject,
              "unpicklable-object",
              "the dataset holds a lock, which only a forked worker can be given",
              {}},
    FaultInfo{FaultKind::kRecursiveProcessCreation,
              "recursive-process-creation",
              "a worker that is not forked runs the program from its beginning, and starts workers "
              "that do the same (ends by itself at 6 generations or 64 processes)",
              {}},
    FaultInfo{FaultKind::kMainModuleReimported, "main-module-reimported",
              "a worker that is not forked repeats the program's own work before it is ready",
              kOwnWork},
};

template <class T>
std::string joined(std::span<const T> all, std::string_view T::* name) {
  std::string text;
  for (const T& each : all)
    text += (text.empty() ? "" : ", ") + std::string(each.*name);
  return text;
}

Status check_number(std::string_view shown, std::string_view value, uint64_t least) {
  constexpr uint64_t kMost = 1'000'000;
  const auto number = parse_int<uint64_t>(value);
  if (number && *number >= least && *number <= kMost) return {};
  return failure(ErrorCode::kInvalid, std::string(shown) + " is not a number from " +
                                          std::to_string(least) + " to " + std::to_string(kMost));
}

Status check_value(const FaultParameter& parameter, std::string_view value) {
  const std::string shown = std::string(parameter.key) + "=" + std::string(value);
  if (parameter.type == Type::kSize) {
    DLP_TRY(const uint64_t size, parse_size(value));
    if (size < 4096) return failure(ErrorCode::kInvalid, shown + " is less than a page");
    return {};
  }
  if (parameter.type == Type::kCount) return check_number(shown, value, 1);
  if (parameter.type == Type::kIndex) return check_number(shown, value, 0);
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
    if (info.parameters.empty()) {
      return failure(ErrorCode::kInvalid, "'" + std::string(text) + "' is not a parameter of " +
                                              std::string(info.name) + ", which has none");
    }
    return failure(
        ErrorCode::kInvalid,
        "'" + std::string(text) + "' is not a parameter of " + std::string(info.name) +
            "; give KEY=VALUE with one of: " + joined(info.parameters, &FaultParameter::key));
  }
  DLP_CHECK(check_value(*parameter, text.substr(equals + 1)));
  fault.parameters[std::string(key)] = text.substr(equals + 1);
  return {};
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
                                            joined(all_faults(), &FaultInfo::name));
  }
  fault.kind = info->kind;
  if (colon == std::string_view::npos) return fault;
  for (const std::string_view parameter : split(text.substr(colon + 1), ',')) {
    DLP_CHECK(add_parameter(*info, parameter, fault));
  }
  return fault;
}

}  // namespace dlprobe
