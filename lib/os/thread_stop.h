#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A system call with its arguments.
struct BlockedCall {
  int64_t number = -1;
  std::array<uint64_t, 6> args = {};
};

/// The registers of a stopped thread, by libunwind's numbers of this machine (UNW_X86_64_*,
/// UNW_AARCH64_*).
struct StoppedThread {
  int32_t tid = 0;
  std::vector<uint64_t> registers;
  uint64_t stack_pointer = 0;
  uint64_t program_counter = 0;
  /// What it waited in when the stop interrupted it: the kernel is about to restart it (ERESTARTSYS
  /// and its kin). On x86_64, whose registers still have the call, also a futex(2) whose timeout
  /// was over in that moment (ETIMEDOUT). Nothing: it ran.
  std::optional<BlockedCall> blocked_in;
};

/// A thread that could not be stopped.
struct NotStopped {
  int32_t tid = 0;
  Error why;  ///< kForbidden: no right, or another program traces it; kTimeout; kVanished
};

/// What came of a stop.
struct ThreadStop {
  std::vector<StoppedThread> threads;  ///< those that stopped in time
  std::vector<NotStopped> not_stopped;
  /// `while_stopped` came back before the threads were let go; if not, what it read after that is
  /// not of one moment.
  bool in_time = true;
  /// From the first thread that stopped to the last release.
  std::chrono::nanoseconds pause{0};
};

/// Stops threads of one process for a moment, reads their registers, calls `while_stopped` with
/// them, and lets them go: PTRACE_SEIZE and PTRACE_INTERRUPT, which send no signal, and
/// PTRACE_DETACH.
///
/// A thread of dlprobe's own does it and ends: with it the kernel lets go of whatever it still
/// traced, as it does when dlprobe is killed. `budget` begins when the first thread stops. Threads
/// that are not stopped when half of it is over are gone without. When all of it is over every
/// thread is let go, whether `while_stopped`, which runs in the caller's thread, has come back or
/// hangs (in a page fault of the target). No exit status is consumed, not even of a child of
/// dlprobe. Signals that arrive meanwhile are passed on. (ptrace(2), Linux 4.7 and later.)
ThreadStop stop_threads(std::span<const int32_t> tids, std::chrono::nanoseconds budget,
                        const std::function<void(std::span<const StoppedThread>)>& while_stopped);

}  // namespace dlprobe
