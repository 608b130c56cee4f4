#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fields.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/shm.h"

namespace dlprobe {

/// Time in which tasks stood still for want of memory (PSI), cumulative: only differences mean
/// anything.
struct MemoryPressure {
  uint64_t full_us = 0;
  bool operator==(const MemoryPressure&) const = default;
};
constexpr void list_fields(auto&& field, Of<MemoryPressure> /*of*/) {
  field("full_us", &MemoryPressure::full_us, "all tasks that had something to do",
        Unit::kMicroseconds);
}

/// Memory of the cgroup that the trainer is in, v1 or v2, at one moment.
struct CgroupMemory {
  int version = 0;
  std::string path;
  uint64_t used_bytes = 0;
  std::optional<uint64_t> limit_bytes;
  uint64_t shmem_bytes = 0;
  uint64_t oom_kills = 0;
  std::optional<uint64_t> anon_bytes;
  std::optional<uint64_t> file_bytes;
  std::optional<uint64_t> swap_bytes;
  std::optional<MemoryPressure> pressure;
  bool operator==(const CgroupMemory&) const = default;
};
constexpr void list_fields(auto&& field, Of<CgroupMemory> /*of*/) {
  field("v", &CgroupMemory::version, "1 or 2");
  field("path", &CgroupMemory::path, "as /proc/PID/cgroup has it");
  field("used", &CgroupMemory::used_bytes, "in use", Unit::kBytes);
  field("limit", &CgroupMemory::limit_bytes,
        "the smallest that is visible on the way up; none: no limit", Unit::kBytes);
  field("shmem", &CgroupMemory::shmem_bytes, "of memory.stat", Unit::kBytes);
  field("oom", &CgroupMemory::oom_kills, "cumulative: only differences mean anything");
  field("anon", &CgroupMemory::anon_bytes, "anonymous memory", Unit::kBytes);
  field("file", &CgroupMemory::file_bytes, "page cache without shared memory: reclaimable",
        Unit::kBytes);
  field("swap", &CgroupMemory::swap_bytes, "none where swap is not accounted for", Unit::kBytes);
  field("psi", &CgroupMemory::pressure, "of this group: v2 only");
}

/// Memory of the host (/proc/meminfo, /proc/vmstat) at one moment.
struct HostMemory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  uint64_t shmem_bytes = 0;
  uint64_t swap_total_bytes = 0;
  uint64_t swap_free_bytes = 0;
  uint64_t oom_kills = 0;
  std::optional<uint64_t> swapped_in_pages;
  std::optional<uint64_t> swapped_out_pages;
  std::optional<uint64_t> committed_bytes;
  std::optional<uint64_t> commit_limit_bytes;
  std::optional<MemoryPressure> pressure;
  bool operator==(const HostMemory&) const = default;
};
constexpr void list_fields(auto&& field, Of<HostMemory> /*of*/) {
  field("total", &HostMemory::total_bytes, "of the machine", Unit::kBytes);
  field("avail", &HostMemory::available_bytes, "MemAvailable", Unit::kBytes);
  field("shmem", &HostMemory::shmem_bytes, "shared memory", Unit::kBytes);
  field("swap", &HostMemory::swap_total_bytes, "swap of the machine", Unit::kBytes);
  field("swap_free", &HostMemory::swap_free_bytes, "swap that is free", Unit::kBytes);
  field("oom", &HostMemory::oom_kills,
        "/proc/vmstat oom_kill: host-wide, cumulative, counts cgroup kills too");
  field("swpin", &HostMemory::swapped_in_pages, "pswpin, cumulative");
  field("swpout", &HostMemory::swapped_out_pages, "pswpout, cumulative");
  field("commit", &HostMemory::committed_bytes, "Committed_AS", Unit::kBytes);
  field("commit_limit", &HostMemory::commit_limit_bytes, "binding only where overcommit is off",
        Unit::kBytes);
  field("psi", &HostMemory::pressure, "/proc/pressure/memory");
}

/// What the kernel said about the subject's process tree at one moment: plain data.
struct Sample {
  BootNs at = 0;
  std::vector<ProcessSample> processes;
  std::vector<Observed<ShmUse>> shm;
  std::optional<Observed<CgroupMemory>> cgroup;
  std::optional<Observed<HostMemory>> host;
  bool operator==(const Sample&) const = default;
};
constexpr void list_fields(auto&& field, Of<Sample> /*of*/) {
  field("at", &Sample::at, "when it was taken", Unit::kMoment);
  field("p", &Sample::processes, "the processes, by key");
  field("shm", &Sample::shm, "one for each mount that the tree sees then");
  field("cg", &Sample::cgroup, "memory of the trainer's cgroup");
  field("host", &Sample::host, "memory of the host");
}

}  // namespace dlprobe
