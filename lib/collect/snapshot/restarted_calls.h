#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "lib/model/ids.h"
#include "lib/proc/syscall_file.h"

namespace dlprobe {

/// Which call a thread is in that goes on with an interrupted wait.
///
/// A stop (dlprobe's own among them) interrupts poll, nanosleep and a futex wait with a timeout.
/// The kernel goes on with them as restart_syscall(2), and /proc/PID/task/TID/syscall has that
/// number until the timeout is over, with the arguments and the stack pointer of the call that is
/// gone on with. What those are cannot be told without its number: it is known from an earlier
/// look.
class RestartedCalls {
 public:
  /// `call` as it was before it was interrupted; as it is, where no earlier look was at it.
  SyscallFile resolve(const ProcessKey& process, int32_t tid, const SyscallFile& call);

 private:
  std::map<std::pair<ProcessKey, int32_t>, SyscallFile> seen_;
};

}  // namespace dlprobe
