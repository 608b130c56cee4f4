#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// The failures that the reference loader can make happen to itself, by the name of the finding
/// they lead to.
enum class FaultKind {
  kNone,
  kShmTooSmall,
  kShmExhausted,
  kShmStaleFiles,
  kShmLeak,
  kShmHeldByAnotherJob,
  kBatchLostInWorker,
  kLeakedSemaphores,
  kShmInodesExhausted,
  kBatchesKeptByConsumer,
  kFdLeakInWorker,
  kForkInheritedLock,
  kForkLostThreadPool,
  kLockCycle,
  kLockHolderDead,
  kPipeWithoutPeer,
  kWorkerStopped,
  kSlowSample,
  kConsumerStuck,
  kWorkerCrashed,
  kWorkerExited,
  kKilledBySignal,
  kOomKilledByCgroup,
  kCopyOnWriteGrowth,
  kWorkerMemoryLeak,
  kPrefetchBacklog,
  kThreadOversubscription,
  kMissingMainGuard,
  kUnpicklableObject,
  kRecursiveProcessCreation,
  kMainModuleReimported,
};

/// A parameter of a fault, as in --fault shm-exhausted:after=3,mode=sigbus.
struct FaultParameter {
  enum class Type { kSize, kCount, kIndex, kWord };  ///< a count is at least 1, an index 0
  std::string_view key;
  Type type;
  std::string_view words;  ///< of kWord: what it may be, "error|sigbus"
  std::string_view help;   ///< with its default
};

/// A line of the table of faults, which is also what --help prints.
struct FaultInfo {
  FaultKind kind;
  std::string_view name;
  std::string_view summary;
  std::span<const FaultParameter> parameters;
};
std::span<const FaultInfo> all_faults();

/// What the user asked for with --fault. Values are checked against the table.
struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::map<std::string, std::string, std::less<>> parameters;

  uint64_t number(std::string_view key, uint64_t otherwise) const;  ///< of all but a word
  std::string word(std::string_view key, std::string_view otherwise) const;
};

/// "NAME[:k=v,...]"; kInvalid says what is wrong and lists what there is. Empty text: no fault.
Expected<Fault> parse_fault(std::string_view text);

}  // namespace dlprobe
