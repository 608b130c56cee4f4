#include "reports/asked_texts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/lower_case.h"
#include "lib/base/parse.h"
#include "lib/model/log_text.h"

namespace dlprobe {
namespace {

using enum FindingCode;

struct AskedText {
  std::string_view text;
  std::span<const FindingCode> codes;
};

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
constexpr std::array kLeftInShm = {kShmStaleFiles, kShmLeak};
constexpr std::array kTwoRuntimes = {kTwoOpenMpRuntimes};
constexpr std::array kTooMany = {kTooManyWorkers, kThreadOversubscription};
constexpr std::array kBusError = {kShmExhausted, kShmTooSmall, kBusErrorOnFileMapping};
constexpr std::array kNoShm = {kShmNotWritable, kShmNotTmpfs};
constexpr std::array kTemporary = {kTemporaryFolderUnusable};
constexpr std::array kExited = {kUncaughtException, kWorkerExited};
constexpr std::array kSignalled = {kKilledBySignal};
constexpr std::array kHungUp = {kSessionHangup, kKilledBySignal};
constexpr std::array kStopped = {kWorkerStopped};

constexpr std::array kTexts = {
    AskedText{"No space left on device", kNoSpace},
    AskedText{"Unexpected bus error", kBusError},
    AskedText{"Bus error", kBusError},
    AskedText{"BrokenPipeError", kPeerGone},
    AskedText{"ConnectionResetError", kPeerGone},
    AskedText{"ConnectionRefusedError", kPeerGone},
    AskedText{"BrokenProcessPool", kPoolBroken},
    AskedText{"TerminatedWorkerError", kPoolBroken},
    AskedText{"process pool was terminated abruptly", kPoolBroken},
    AskedText{"leaked shared_memory objects", kLeftInShm},
    AskedText{"DataLoader timed out", kTimedOut},
    AskedText{"multiprocessing.context.TimeoutError", kTimedOut},
    AskedText{"queue.Empty", kTimedOut},
    AskedText{"DUE TO TIME LIMIT", kTimedOut},
    AskedText{"Killed", kKilled},
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
    AskedText{"generator raised StopIteration", kUncaught},
    AskedText{"can only test a child process", kUncaught},
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
    AskedText{"[Errno 38]", kNoShm},
    AskedText{"AF_UNIX path too long", kTemporary},
};

/// As it is printed, or alone in any case: "killed" is part of other texts.
bool asks_for(std::string_view typed, std::string_view text) {
  return typed.contains(text) || lower_case(typed) == lower_case(text);
}

/// In lower case; a number has its sign.
std::vector<std::string> words_and_numbers(std::string_view text) {
  std::string row = lower_case(text);
  for (size_t i = 0; i < row.size(); ++i) {
    const auto is_of_word = [&](size_t at) {
      return at < row.size() && std::isalnum(static_cast<unsigned char>(row[at])) != 0;
    };
    const bool is_sign = row[i] == '-' && is_of_word(i + 1) && (i == 0 || !is_of_word(i - 1));
    if (!is_of_word(i) && !is_sign) row[i] = ' ';
  }
  std::vector<std::string> words;
  for (const std::string_view word : split_fields(row))
    words.emplace_back(word);
  return words;
}

/// The number of "sigkill"; nothing: there is no such signal.
std::optional<int> signal_named(std::string_view word) {
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* name = ::sigabbrev_np(signal);
    if (name != nullptr && word == "sig" + lower_case(name)) return signal;
  }
  return std::nullopt;
}

/// The exit code that a number means behind that word; nothing: none.
std::optional<int> ending_of(int number, std::string_view before) {
  constexpr int kShellsOffset = 128;  // and containers'
  constexpr std::array<std::string_view, 7> kEnds = {"code",       "exitcode", "status",  "exit",
                                                     "returncode", "rc",       "returned"};
  if (number == 0 || number < -SIGRTMAX || number > kShellsOffset + SIGRTMAX) return std::nullopt;
  if (before == "signal") return -number;
  if (std::ranges::find(kEnds, before) == kEnds.end()) return std::nullopt;
  return number > kShellsOffset ? kShellsOffset - number : number;
}

/// How a process ended, as Python's exit codes have it: minus the signal, or what it exited with.
std::optional<int> asked_ending(std::string_view typed) {
  const std::vector<std::string> words = words_and_numbers(typed);
  for (size_t i = 0; i < words.size(); ++i) {
    if (const auto signal = signal_named(words[i])) return -*signal;
    const auto number = parse_int<int>(words[i]);
    const auto ending = number && i > 0 ? ending_of(*number, words[i - 1]) : std::nullopt;
    if (ending) return ending;
  }
  // Alone it may be anything but small.
  const auto number = words.size() == 1 ? parse_int<int>(words[0]) : std::nullopt;
  const auto ending = number ? ending_of(*number, "code") : std::nullopt;
  return ending && *ending < 0 ? ending : std::nullopt;
}

std::span<const FindingCode> codes_of_ending(int ending) {
  switch (-ending) {
    case SIGKILL:
      return kKilled;
    case SIGBUS:
      return kBusError;
    case SIGSEGV:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
      return kCrashed;
    case SIGHUP:
      return kHungUp;
    case SIGSTOP:
    case SIGTSTP:
      return kStopped;
    default:
      return ending > 0 ? std::span<const FindingCode>(kExited) : kSignalled;
  }
}

}  // namespace

std::span<const FindingCode> asked_codes(std::string_view typed) {
  for (const AskedText& asked : kTexts)
    if (asks_for(typed, asked.text)) return asked.codes;
  if (find_known_text(typed) != nullptr) return {};
  const auto ending = asked_ending(typed);
  return ending ? codes_of_ending(*ending) : std::span<const FindingCode>();
}

}  // namespace dlprobe
