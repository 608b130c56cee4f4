#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/model/tuning.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// CPU time of every thread of some processes at one moment.
struct CpuLook {
  struct Thread {
    uint64_t ran_ns = 0;
    uint64_t queued_ns = 0;
    uint64_t preempted = 0;
  };
  BootNs at = 0;
  std::map<ProcessKey, std::map<int32_t, Thread>> processes;  ///< those that could be read
};

/// Reads schedstat and status of each of their threads: some 20 us for a thread.
CpuLook look_at_cpu(const Machine& machine, std::span<const ProcessKey> processes);

/// What each process, which is in both looks, did between them. A thread that began meanwhile
/// counts, one that ended does not. The roles are left to the caller.
std::vector<ProcessCpu> cpu_between(const CpuLook& before, const CpuLook& after);

}  // namespace dlprobe
