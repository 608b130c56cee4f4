#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "lib/base/message.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// What the subject's memory comes up against first.
struct MemoryLimit {
  enum class Kind { kCgroup, kHost };
  Kind kind = Kind::kHost;
  Message name;             ///< "the memory limit of cgroup /job"
  uint64_t bytes = 0;       ///< of the limit
  uint64_t left_bytes = 0;  ///< not counting page cache, which the kernel takes back
  OwnWords source;
  BootNs at = 0;
};

/// The nearest, as last seen in the run up to `as_of`; none where nothing was read. What is left
/// after the processes have ended tells nothing of what they had.
std::optional<MemoryLimit> nearest_memory_limit(const Run& run,
                                                BootNs as_of = std::numeric_limits<BootNs>::max());

/// The root of all groups, which everybody's processes are in. It has no limit; what a container
/// sees as "/" has.
bool is_of_whole_machine(const CgroupMemory& group);

/// The last sample in which the job was still at work: one of its workers lived, or, of a job that
/// was seen without workers, its trainer, else whatever there was. 0 where there is no sample.
BootNs last_at_work(const Run& run);

/// What a worker takes, of the one that took the most at its last look. Python's objects are
/// copied page by page as they are touched: what it shares with its trainer may become its own.
struct WorkerMemory {
  BootNs at = 0;
  ProcessKey key;
  uint64_t own_bytes = 0;      ///< pages that no other process has (Private_* of smaps_rollup)
  uint64_t to_copy_bytes = 0;  ///< anonymous pages that it still shares by fork
  uint64_t most_bytes() const { return own_bytes + to_copy_bytes; }
};

/// None where no worker's smaps_rollup was read.
std::optional<WorkerMemory> memory_of_a_worker(const Run& run);

/// The anonymous part of a process's private pages, at the least: what is private of files and of
/// shared memory is no more than its part of them. 0 where smaps_rollup was not read.
uint64_t private_anonymous_bytes(const ProcessSample& sample);

}  // namespace dlprobe
