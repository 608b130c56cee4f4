#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/shm.h"

namespace dlprobe {

/// Time in which tasks stood still for want of memory (PSI), cumulative: only differences mean
/// anything.
struct MemoryPressure {
  uint64_t some_us = 0;  ///< at least one task
  uint64_t full_us = 0;  ///< all tasks that had something to do
  bool operator==(const MemoryPressure&) const = default;
};

/// Memory of the cgroup that the trainer is in, v1 or v2, at one moment.
struct CgroupMemory {
  int version = 0;   ///< 1 or 2
  std::string path;  ///< as /proc/PID/cgroup has it
  uint64_t used_bytes = 0;
  std::optional<uint64_t>
      limit_bytes;           ///< the smallest that is visible on the way up; none: no limit
  uint64_t shmem_bytes = 0;  ///< of memory.stat
  uint64_t oom_kills = 0;    ///< cumulative: only differences mean anything
  std::optional<uint64_t> anon_bytes;
  std::optional<uint64_t> file_bytes;      ///< page cache without shared memory: reclaimable
  std::optional<uint64_t> swap_bytes;      ///< none where swap is not accounted for
  std::optional<MemoryPressure> pressure;  ///< of this group: v2 only
  bool operator==(const CgroupMemory&) const = default;
};

/// Memory of the host (/proc/meminfo, /proc/vmstat) at one moment.
struct HostMemory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  uint64_t shmem_bytes = 0;
  uint64_t swap_total_bytes = 0;
  uint64_t swap_free_bytes = 0;
  uint64_t oom_kills =
      0;  ///< /proc/vmstat oom_kill: host-wide, cumulative, counts cgroup kills too
  std::optional<uint64_t> swapped_in_pages;    ///< pswpin, cumulative
  std::optional<uint64_t> swapped_out_pages;   ///< pswpout, cumulative
  std::optional<uint64_t> committed_bytes;     ///< Committed_AS
  std::optional<uint64_t> commit_limit_bytes;  ///< binding only where overcommit is off
  std::optional<MemoryPressure> pressure;      ///< /proc/pressure/memory
  bool operator==(const HostMemory&) const = default;
};

/// What the kernel said about the subject's process tree at one moment: plain data.
struct Sample {
  BootNs at = 0;
  std::vector<ProcessSample> processes;  ///< in key order
  std::vector<Observed<ShmUse>> shm;     ///< one for each mount that the tree sees then
  std::optional<Observed<CgroupMemory>> cgroup;
  std::optional<Observed<HostMemory>> host;
  bool operator==(const Sample&) const = default;
};

}  // namespace dlprobe
