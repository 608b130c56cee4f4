#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/sample.h"

namespace dlprobe {

/// A folder that a job reads from or writes to.
struct FolderFacts {
  std::string path;
  std::string trouble;                 ///< why it cannot be used, for people; empty: it can
  std::optional<uint64_t> free_bytes;  ///< of its file system
  std::optional<uint64_t> entries;     ///< files and folders in it; counted up to a thousand
  bool operator==(const FolderFacts&) const = default;
};

/// A variable of the environment that says how many threads a library starts.
struct ThreadSetting {
  std::string name;   ///< "OMP_NUM_THREADS"
  std::string value;  ///< as it stands
  bool operator==(const ThreadSetting&) const = default;
};

/// What `dlprobe gate` asks of the machine before a loader is started, beside its shared memory.
struct GateFacts {
  BootNs at = 0;
  std::string level;    ///< "quick", "default", "full"
  BootNs deadline = 0;  ///< what is not done by then is incomplete; 0: none
  Observed<Limit> processes = failure(ErrorCode::kInsufficient, "not read");  ///< RLIMIT_NPROC
  bool is_root = false;  ///< RLIMIT_NPROC does not hold it (CAP_SYS_RESOURCE)
  Observed<uint64_t> tasks_of_user = failure(ErrorCode::kInsufficient, "not read");
  std::optional<uint64_t> cgroup_tasks;                                      ///< pids.current
  std::optional<uint64_t> cgroup_tasks_limit;                                ///< pids.max
  Observed<uint64_t> tasks = failure(ErrorCode::kInsufficient, "not read");  ///< of the machine
  Observed<uint64_t> most_tasks = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> files_open = failure(ErrorCode::kInsufficient, "not read");  ///< fs.file-nr
  Observed<uint64_t> most_files = failure(ErrorCode::kInsufficient, "not read");  ///< fs.file-max
  Observed<HostMemory> memory = failure(ErrorCode::kInsufficient, "not read");
  std::optional<CgroupMemory> cgroup;  ///< none: dlprobe is in no memory cgroup that it can see
  uint32_t cpus_online = 0;
  uint32_t cpus_usable = 0;         ///< by affinity
  std::optional<double> cpu_quota;  ///< CPUs' worth of time; none: no quota
  std::string cpu_quota_source;
  std::vector<ThreadSetting> thread_settings;
  Observed<int32_t> ptrace_scope = failure(ErrorCode::kInsufficient, "not read");
  bool may_trace_all = false;  ///< CAP_SYS_PTRACE
  FolderFacts temporary;
  std::optional<FolderFacts> data;

  bool operator==(const GateFacts&) const = default;
};

}  // namespace dlprobe
