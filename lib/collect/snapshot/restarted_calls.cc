#include "lib/collect/snapshot/restarted_calls.h"

#include <sys/syscall.h>

namespace dlprobe {

SyscallFile RestartedCalls::resolve(const ProcessKey& process, int32_t tid,
                                    const SyscallFile& call) {
  if (call.running || call.number < 0) return call;
  const std::pair thread(process, tid);
  if (call.number != SYS_restart_syscall) {
    seen_.insert_or_assign(thread, call);
    return call;
  }
  const auto seen = seen_.find(thread);
  const bool is_it = seen != seen_.end() && seen->second.args == call.args &&
                     seen->second.stack_pointer == call.stack_pointer;
  return is_it ? seen->second : call;
}

}  // namespace dlprobe
