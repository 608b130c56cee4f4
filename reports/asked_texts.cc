#include "reports/asked_texts.h"

#include <array>

namespace dlprobe {
namespace {

using enum FindingCode;

constexpr std::array kNoSpace = {kShmExhausted, kShmTooSmall, kTemporaryFolderUnusable,
                                 kShmInodesExhausted};
/// The other end of a pipe or socket has ended: its own error is the one to find.
constexpr std::array kPeerGone = {kUncaughtException, kKilledBySignal, kOomKilledByCgroup};
constexpr std::array kPoolBroken = {kWorkerExited, kOomKilledByCgroup, kWorkerCrashed,
                                    kKilledBySignal, kMissingMainGuard};
constexpr std::array kTimedOut = {kForkInheritedLock, kSlowSample, kIoStall, kForkLostThreadPool,
                                  kWorkerBusyNoProgress};
constexpr std::array kKilled = {kOomKilledByCgroup, kOomKilledByHost, kKilledBySignal};
constexpr std::array kNoMemory = {kOomKilledByCgroup, kMemoryLimitTooLow, kWorkerMemoryLeak,
                                  kForkRefusedByOvercommit};
constexpr std::array kNoThread = {kProcessLimitReached, kThreadOversubscription,
                                  kMemoryMapLimitReached};
constexpr std::array kCrashed = {kWorkerCrashed};
constexpr std::array kNoGuard = {kMissingMainGuard};
/// A spawned child ends so when its parent could not send it all.
constexpr std::array kCutPickle = {kUnpicklableObject, kHandleSharedOverFork, kKilledBySignal};
constexpr std::array kUnpicklable = {kUnpicklableObject};
constexpr std::array kNotFoundInChild = {kMainNotImportable, kStateNotInherited};
/// Two processes that read by one descriptor, or speak over one connection.
constexpr std::array kShared = {kHandleSharedOverFork, kDataNotReadable};
constexpr std::array kNotReadable = {kDataNotReadable, kIoStall, kBusErrorOnFileMapping};
constexpr std::array kUncaught = {kUncaughtException};
constexpr std::array kRanks = {kRankBehind, kRankDead, kUnevenData, kCollectiveMismatch};
constexpr std::array kRankGone = {kRankDead, kUncaughtException, kKilledBySignal, kRankBehind};
constexpr std::array kTwoRuntimes = {kTwoOpenMpRuntimes};
constexpr std::array kTooMany = {kTooManyWorkers, kThreadOversubscription};
constexpr std::array kBusError = {kShmExhausted, kShmTooSmall, kBusErrorOnFileMapping};
constexpr std::array kNoShm = {kShmNotWritable, kShmNotTmpfs};
constexpr std::array kTemporary = {kTemporaryFolderUnusable};

constexpr std::array kTexts = {
    AskedText{"No space left on device", kNoSpace},
    AskedText{"Unexpected bus error", kBusError},
    AskedText{"BrokenPipeError", kPeerGone},
    AskedText{"ConnectionResetError", kPeerGone},
    AskedText{"ConnectionRefusedError", kPeerGone},
    AskedText{"BrokenProcessPool", kPoolBroken},
    AskedText{"TerminatedWorkerError", kPoolBroken},
    AskedText{"DataLoader timed out", kTimedOut},
    AskedText{"multiprocessing.context.TimeoutError", kTimedOut},
    AskedText{"queue.Empty", kTimedOut},
    AskedText{"DUE TO TIME LIMIT", kTimedOut},
    AskedText{"Killed", kKilled},
    AskedText{"(SIGKILL) received by PID", kKilled},
    AskedText{"exitcode  : -9", kKilled},
    AskedText{"Exit code 137", kKilled},
    AskedText{"std::bad_alloc", kNoMemory},
    AskedText{"MemoryError", kNoMemory},
    AskedText{"DefaultCPUAllocator: can't allocate memory", kNoMemory},
    AskedText{"Thread creation failed", kNoThread},
    AskedText{"pthread_create failed", kNoThread},
    AskedText{"core dumped", kCrashed},
    AskedText{"terminate called", kCrashed},
    AskedText{"double free or corruption", kCrashed},
    AskedText{"free(): invalid", kCrashed},
    AskedText{"munmap_chunk()", kCrashed},
    AskedText{"corrupted size vs. prev_size", kCrashed},
    AskedText{"malloc(): ", kCrashed},
    AskedText{"exitcode  : -11", kCrashed},
    AskedText{"Exit code 139", kCrashed},
    AskedText{"freeze_support", kNoGuard},
    AskedText{"Ran out of input", kCutPickle},
    AskedText{"pickle data was truncated", kCutPickle},
    AskedText{"Can't pickle", kUnpicklable},
    AskedText{"cannot pickle", kUnpicklable},
    AskedText{"can't pickle", kUnpicklable},
    AskedText{"Can't get attribute", kNotFoundInChild},
    AskedText{"invalid load key", kShared},
    AskedText{"B-tree signature", kShared},
    AskedText{"inflate() failed", kShared},
    AskedText{"bad symbol table node", kShared},
    AskedText{"while decompressing data", kShared},
    AskedText{"BadRslotError", kShared},
    AskedText{"database disk image is malformed", kShared},
    AskedText{"bad record mac", kShared},
    AskedText{"BAD_RECORD_MAC", kShared},
    AskedText{"Input/output error", kNotReadable},
    AskedText{"Stale file handle", kNotReadable},
    AskedText{"Trying to resize storage", kUncaught},
    AskedText{"expects each tensor to be equal size", kUncaught},
    AskedText{"in DataLoader worker process", kUncaught},
    AskedText{"NCCL operations have failed or timed out", kRanks},
    AskedText{"collective operation timeout", kRanks},
    AskedText{"ms for recv operation", kRanks},
    AskedText{"ms for send operation", kRanks},
    AskedText{"monitoredBarrier", kRanks},
    AskedText{"Connection closed by peer", kRankGone},
    AskedText{"ChildFailedError", kRankGone},
    AskedText{"found libiomp5", kTwoRuntimes},
    AskedText{"OMP: Error #15", kTwoRuntimes},
    AskedText{"This DataLoader will create", kTooMany},
    AskedText{"[Errno 38] Function not implemented", kNoShm},
    AskedText{"AF_UNIX path too long", kTemporary},
};

}  // namespace

std::span<const AskedText> asked_texts() {
  return kTexts;
}

}  // namespace dlprobe
