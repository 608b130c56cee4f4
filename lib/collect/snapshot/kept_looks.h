#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "lib/collect/snapshot/last_run.h"
#include "lib/collect/snapshot/python_look.h"
#include "lib/collect/snapshot/restarted_calls.h"
#include "lib/model/ids.h"
#include "lib/os/deadline.h"
#include "lib/proc/schedstat.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/native/module_cache.h"
#include "lib/stacks/native/unwinder.h"

namespace dlprobe {

/// The registers of blocked threads that had to be stopped once: as long as such a thread stays in
/// the same call, they stay the same, and it need not be stopped again.
class HeldRegisters {
 public:
  using Thread = std::pair<ProcessKey, int32_t>;

  void keep(const Thread& thread, const SyscallFile& call, const SchedStat& ran,
            Registers registers) {
    held_.insert_or_assign(thread, Held{call, ran.cpu_ns, std::move(registers)});
  }

  /// Null where they are not known, or the thread has run since for longer than it takes to enter
  /// the same call again.
  const Registers* find(const Thread& thread, const SyscallFile& call,
                        const std::optional<SchedStat>& ran) const {
    constexpr uint64_t kToEnterAgain = 300'000;  // ns
    const auto found = held_.find(thread);
    if (found == held_.end() || !ran || found->second.call != call) return nullptr;
    return ran->cpu_ns <= found->second.cpu_ns + kToEnterAgain ? &found->second.registers : nullptr;
  }

 private:
  struct Held {
    SyscallFile call;
    uint64_t cpu_ns = 0;
    Registers registers;
  };
  std::map<Thread, Held> held_;
};

/// What is kept from one look to the next.
struct KeptLooks {
  explicit KeptLooks(const Machine& machine) : last_run(machine) {}
  ModuleCache modules;
  PythonCodeCache codes;
  HeldRegisters held;
  RestartedCalls calls;
  LastRun last_run;
  DeadlineReader dumps{std::chrono::seconds(1)};  ///< of the Flight Recorder: on a network, maybe
};

}  // namespace dlprobe
