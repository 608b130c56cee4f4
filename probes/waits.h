#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/model/process.h"

namespace dlprobe {

/// What a blocked thread waits in, told from the number of its system call.
enum class WaitKind {
  kRunning,
  kPoll,  ///< poll, ppoll
  kRead,  ///< read, recv
  kFutex,
  kSelect,
  kEpoll,
  kWrite,         ///< write, send
  kSleep,         ///< nanosleep, clock_nanosleep, select without files: ends by itself
  kSignal,        ///< pause, sigsuspend, sigwait, select without files and without a timeout
  kAccept,        ///< of a connection
  kVfork,         ///< vfork, clone, clone3: a parent stands still until its child calls execve
  kWaitForChild,  ///< wait4, waitid
  kLockFile,      ///< flock, fcntl
  kOpen,
  kOther,
};

/// The kind of `wait` on a machine of that uname name; kOther where its numbers are not known.
WaitKind kind_of(const ThreadWait& wait, std::string_view machine);

/// The timeout of a thread in poll(2): -1 is "for ever", nothing where it cannot be told (ppoll has
/// it in the target's memory).
std::optional<int32_t> poll_timeout_ms(const ThreadWait& wait, std::string_view machine);

/// Whether a thread in poll(2), select(2), epoll_wait(2) or one of their kin wakes by itself.
bool has_timeout(const ThreadWait& wait, std::string_view machine);

}  // namespace dlprobe
