#include "lib/stacks/locks/futex_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "lib/foreign/libraries.h"

namespace dlprobe {
namespace {

/// The first words of glibc's pthread_mutex_t (struct __pthread_mutex_s), the same on x86_64 and
/// aarch64.
struct MutexWords {
  uint32_t lock;
  uint32_t count;
  int32_t owner;
  uint32_t users;
  uint32_t kind;
};

constexpr int32_t kLargestTid = 1 << 22;  // PID_MAX_LIMIT
constexpr uint32_t kMutexContended = 2;   // of a mutex and of glibc's low-level lock
// nptl/pthreadP.h: the type in bits 0 and 1, robust 16, PI 32, PP 64, shared 128, elision 256, 512.
constexpr uint32_t kMutexKindBits = 0x3F3;

/// libgomp's gomp_barrier_t (config/linux/bar.h): total, generation, and the count of those still
/// awaited in the next cache line.
constexpr uint64_t kTeamSizeBeforeFutex = 4;
constexpr uint64_t kAwaitedAfterFutex = 60;
constexpr uint32_t kGenerationStep = 8;  // BAR_INCR
constexpr uint32_t kLargestTeam = 4096;
constexpr uint32_t kOpenMpLockContended = 0xFFFFFFFF;

std::optional<MutexWords> mutex_at(const Memory& memory, uint64_t address) {
  const auto words = memory.value<MutexWords>(address);
  if (!words || (words->kind & ~kMutexKindBits) != 0 || words->owner <= 0 ||
      words->owner > kLargestTid || words->users == 0) {
    return std::nullopt;
  }
  return *words;
}

std::optional<uint32_t> team_at(const Memory& memory, uint64_t address, uint32_t generation) {
  if (generation % kGenerationStep != 0) return std::nullopt;
  const auto total = memory.value<uint32_t>(address - kTeamSizeBeforeFutex);
  const auto awaited = memory.value<uint32_t>(address + kAwaitedAfterFutex);
  const bool makes_sense = total && awaited && *total >= 2 && *total <= kLargestTeam &&
                           *awaited >= 1 && *awaited <= *total;
  return makes_sense ? std::optional(*total) : std::nullopt;
}

/// sem_t (struct new_sem): value and waiters in one word, then whether it is private.
bool is_semaphore(const Memory& memory, uint64_t address) {
  const auto words = memory.value<std::array<uint32_t, 3>>(address);
  return words && (*words)[0] == 0 && (*words)[1] >= 1 && (*words)[1] < kLargestTeam &&
         ((*words)[2] == 0 || (*words)[2] == FUTEX_PRIVATE_FLAG);
}

void tell_kind(FutexWait& wait, int command, const Memory& memory) {
  if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2) {
    wait.kind = LockKind::kMutex;
    wait.owner_tid = static_cast<int32_t>(wait.value & FUTEX_TID_MASK);
    return;
  }
  const bool robust = (wait.expected & FUTEX_WAITERS) != 0 && (wait.expected & FUTEX_TID_MASK) != 0;
  if (robust && wait.expected != kOpenMpLockContended) {
    wait.kind = LockKind::kMutex;
    wait.owner_tid = static_cast<int32_t>(wait.expected & FUTEX_TID_MASK);
    return;
  }
  if (wait.expected == kMutexContended) {
    if (const auto mutex = mutex_at(memory, wait.address)) {
      wait.kind = LockKind::kMutex;
      wait.owner_tid = mutex->owner;
    } else if (command == FUTEX_WAIT && !wait.shared) {
      wait.kind = LockKind::kLowLevelLock;
    }
    return;
  }
  if (command == FUTEX_WAIT && !wait.shared && wait.expected == kOpenMpLockContended) {
    wait.kind = LockKind::kOpenMpLock;
  } else if (wait.expected == 0 && is_semaphore(memory, wait.address)) {
    wait.kind = wait.shared ? LockKind::kSharedSemaphore : LockKind::kSemaphore;
  }
}

/// Who has a pthread_rwlock_t for writing (struct __pthread_rwlock_arch_t, the same on x86_64 and
/// aarch64). A wait is on __wrphase_futex or on __writers_futex, four bytes behind it. Nothing if
/// it is held by readers, of whom it has a count alone.
std::optional<int32_t> writer_of(const Memory& memory, uint64_t futex) {
  struct ReadWriteLockWords {
    uint32_t readers, writers, phase_futex, writers_futex, pad3, pad4;
    int32_t writer, shared;
    uint64_t pad5, pad6;
    uint32_t flags;
  };
  for (const uint64_t offset : {8U, 12U}) {
    const auto lock = memory.value<ReadWriteLockWords>(futex - offset);
    if (!lock || lock->phase_futex > 3 || lock->writers_futex > 3 || lock->flags > 2) continue;
    if (lock->shared != 0 && lock->shared != 1) continue;
    if (lock->writer > 0 && lock->writer <= kLargestTid) return lock->writer;
  }
  return std::nullopt;
}

LockKind kind_of_function(std::string_view function) {
  constexpr std::array<std::pair<std::string_view, LockKind>, 9> kFunctions = {{
      {"pthread_mutex_", LockKind::kMutex},
      {"pthread_cond_", LockKind::kCondition},
      {"pthread_rwlock_", LockKind::kReadWriteLock},
      {"pthread_barrier_", LockKind::kBarrier},
      {"pthread_join", LockKind::kJoin},
      {"pthread_timedjoin", LockKind::kJoin},
      {"pthread_clockjoin", LockKind::kJoin},
      {"pthread_once", LockKind::kOnce},
      {"sem_", LockKind::kSemaphore},
  }};
  // glibc has most of them under an internal name, too: __pthread_rwlock_wrlock.
  function.remove_prefix(std::min(function.find_first_not_of('_'), function.size()));
  for (const auto& [prefix, kind] : kFunctions) {
    if (function.starts_with(prefix)) return kind;
  }
  return LockKind::kUnknown;
}

/// A program that calls futex(2) by itself (through syscall(3), or its own instruction) has words
/// of its own meaning in it: an idle thread of TBB waits for a 2 to change, as for a contended lock
/// of glibc. What a word with an owner field around it or of the kernel's protocols says stays.
void forget_what_is_not_of_glibc(FutexWait& wait, const StackFrame& innermost) {
  const bool by_syscall = is_libc(innermost.file) && innermost.function == "syscall";
  const bool by_glibc =
      !by_syscall && (is_libc(innermost.file) || innermost.function.contains("lll_lock_wait"));
  const bool told_by_words = wait.kind == LockKind::kSemaphore ||
                             (wait.kind == LockKind::kMutex && wait.expected == kMutexContended);
  const bool foreign =
      wait.kind == LockKind::kLowLevelLock ? !by_glibc : by_syscall && told_by_words;
  if (!foreign) return;
  wait.kind = LockKind::kUnknown;
  wait.owner_tid.reset();
}

/// The kind that the C library's function tells, with the owner where the words have one.
void take_kind(FutexWait& wait, LockKind kind, const Memory& memory) {
  // What a condition variable waits for before it takes its mutex again is the mutex.
  const bool on_mutex = kind == LockKind::kCondition && wait.kind == LockKind::kMutex;
  if (!on_mutex) wait.kind = kind;
  if (kind == LockKind::kSemaphore && wait.shared) wait.kind = LockKind::kSharedSemaphore;
  if (kind == LockKind::kReadWriteLock) wait.owner_tid = writer_of(memory, wait.address);
  if (kind == LockKind::kJoin) wait.owner_tid = static_cast<int32_t>(wait.expected);
}

/// CPython's parking lot, from 3.13 on: each thread waits at a semaphore of its own. A lock is a
/// PyMutex alone; all others (PyEvent, SimpleQueue, a stopped world) are woken when there is
/// something for them to do.
LockKind kind_of_parking(std::span<const StackFrame> stack) {
  const auto park = std::ranges::find(stack, "_PyParkingLot_Park", &StackFrame::function);
  if (park == stack.end() || std::next(park) == stack.end()) return LockKind::kUnknown;
  const bool for_mutex = std::next(park)->function.contains("PyMutex_Lock");
  return for_mutex ? LockKind::kPythonMutex : LockKind::kCondition;
}

}  // namespace

std::optional<FutexWait> decode_futex_wait(const SyscallFile& call, const Memory& memory,
                                           const AddressSpace& space) {
  if (call.running || call.number != SYS_futex) return std::nullopt;
  const auto operation = static_cast<int>(call.args[1]);
  const int command = operation & FUTEX_CMD_MASK;
  constexpr std::array kWaits = {FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI, FUTEX_LOCK_PI2,
                                 FUTEX_WAIT_REQUEUE_PI};
  if (std::ranges::find(kWaits, command) == kWaits.end()) return std::nullopt;
  FutexWait wait{.address = call.args[0],
                 .shared = (operation & FUTEX_PRIVATE_FLAG) == 0,
                 .timed = call.args[3] != 0,
                 .expected = static_cast<uint32_t>(call.args[2])};
  if (const auto value = memory.value<uint32_t>(wait.address)) wait.value = *value;
  const Mapping* mapping = space.find(wait.address);
  if (mapping != nullptr && mapping->shared) {
    wait.file = mapping->path;
    wait.device = mapping->device;
    wait.inode = mapping->inode;
    wait.offset = wait.address - mapping->begin + mapping->offset;
  }
  tell_kind(wait, command, memory);
  return wait;
}

void refine_by_stack(FutexWait& wait, std::span<const StackFrame> stack, const Memory& memory) {
  if (wait.kind == LockKind::kGil) return;
  if (const LockKind kind = kind_of_parking(stack); kind != LockKind::kUnknown) {
    wait.kind = kind;
    return;
  }
  if (!stack.empty()) forget_what_is_not_of_glibc(wait, stack.front());
  for (const StackFrame& frame : stack) {
    if (frame.python) return;
    if (is_libgomp(frame.file)) {
      const auto team = team_at(memory, wait.address, wait.expected);
      if (team) {
        wait.kind = LockKind::kOpenMpBarrier;
        wait.team_size = *team;
      }
      return;
    }
    if (!is_libc(frame.file)) return;
    const LockKind kind = kind_of_function(frame.function);
    if (kind == LockKind::kUnknown) continue;
    take_kind(wait, kind, memory);
    return;
  }
}

}  // namespace dlprobe
