#pragma once

#include <cstdint>
#include <string_view>

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

/// How a system call names the files that it waits on.
enum class FileArgument {
  kNone,
  kDescriptor,  ///< its first argument is one
  kPoll,        ///< an array of pollfd
  kSelect,      ///< sets of descriptors
  kEpoll,       ///< its first argument has a set of them
};

/// A system call in which threads wait (lib/foreign/syscalls.def).
struct Syscall {
  std::string_view name;
  int64_t x86_64;   ///< its number; -1: it has none
  int64_t aarch64;  ///< and that of all later machines
  WaitKind wait;
  FileArgument files;
};

/// The system call of that number on a machine of that uname name; null for one that is not in the
/// list, and on machines whose numbers are not known.
const Syscall* find_syscall(int64_t number, std::string_view machine);

/// The uname name of the machine that dlprobe was built for, as far as find_syscall knows numbers.
std::string_view own_syscall_machine();

}  // namespace dlprobe
