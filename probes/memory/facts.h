#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/memory_need.h"
#include "lib/model/recording.h"
#include "probes/facts/trend.h"

namespace dlprobe::probes::memory {

/// What one look at /proc/PID/smaps_rollup told, with what stat and statm said at that moment.
struct RollupLook {
  BootNs at = 0;
  double anon = 0;          ///< RssAnon
  double pss_anon = 0;      ///< each page divided by the number of processes that share it
  double private_anon = 0;  ///< anonymous pages that no other process has, at the least
  double fault_bytes = 0;   ///< minor faults so far x page size
};

/// Memory of one process over the run. Points into the recording.
struct Series {
  const ProcessInfo* info = nullptr;
  std::vector<SeriesPoint> anon;    ///< anonymous memory, what was swapped out of it included
  std::vector<SeriesPoint> shared;  ///< resident file and shared memory
  std::vector<SeriesPoint> faults;  ///< minor faults x page size
  std::vector<RollupLook> looks;
  BootNs first_at = 0;
  BootNs last_at = 0;
  bool seen_from_birth = false;  ///< the first sample was taken in its first second
  uint64_t swap_bytes = 0;       ///< at the last look
  uint64_t major_faults = 0;     ///< over the run
};

/// What one sample says of the memory of the subject's cgroup, or of the machine's. Points into the
/// recording.
template <class Memory>
struct LookAt {
  BootNs at = 0;
  const Memory* memory = nullptr;  ///< never null
};

/// What a run tells of memory. Points into the recording.
struct Facts {
  const RecordingHeader* header = nullptr;
  const Run* run = nullptr;
  const ProcessInfo* trainer = nullptr;
  std::vector<Series> processes;  ///< with memory of their own, in key order
  std::vector<LookAt<CgroupMemory>> cgroup_looks;
  std::vector<LookAt<HostMemory>> host_looks;
};
Facts facts_of(const RecordingHeader& header, const Run& run);

/// Pages that copy-on-write made private: the sum of Pss_Anon, or the cgroup's anonymous memory,
/// grew while the sum of RssAnon did not.
struct CopyOnWriteGrowth {
  BootNs from = 0;
  BootNs to = 0;
  double bytes = 0;        ///< grown, without what is new memory
  double fault_bytes = 0;  ///< minor faults x page size in that time
  double anon_growth = 0;  ///< of the sum of RssAnon
  double more_bytes = 0;   ///< that it may grow by yet
  std::vector<ProcessKey> processes;
  size_t copies = 1;  ///< how many processes may copy: all who share but one
  Message source;
  bool by_cgroup = false;
};
std::optional<CopyOnWriteGrowth> find_copy_on_write(const Facts& facts);

/// The last value up to that moment, else the first; the series is not empty.
double value_at(const std::vector<SeriesPoint>& series, BootNs at);

/// How the limit stands to what grows.
enum class Outlook {
  kAhead,    ///< it goes on
  kEnded,    ///< it ended before
  kReached,  ///< the kernel killed a process of the job for it
};

/// Of processes that grow: one of the job was killed by the kernel's OOM killer, or all have ended.
Outlook outlook_of(const Facts& facts, const std::vector<ProcessKey>& growing);

/// "the memory limit of cgroup /job (8.0 GiB) is reached in 38 min", or that it is further away
/// than can be told; of what has ended how far away it was.
Message say_when(const MemoryLimit& limit, std::optional<double> seconds, Outlook outlook);

}  // namespace dlprobe::probes::memory
