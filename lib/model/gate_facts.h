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
  std::string not_known;               ///< why that could not be found out; empty: it was
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

/// A package of an interpreter, by its metadata.
struct PythonPackage {
  std::string name;       ///< normalized: "scikit-learn"
  std::string version;    ///< empty: its files do not say
  std::string installer;  ///< "pip", "conda"; empty: it does not say
  std::string path;       ///< its dist-info or egg-info; of one without, its folder or module
  bool operator==(const PythonPackage&) const = default;
};

/// A library that keeps threads of its own (thread_keeper), and the packages whose modules would
/// load it.
struct ThreadLibrary {
  std::string name;                ///< what other files need it by (DT_NEEDED, DT_SONAME)
  std::vector<std::string> files;  ///< of that name, or one file under several names
  std::vector<std::string> packages;
  bool operator==(const ThreadLibrary&) const = default;
};

/// A package that conda says is its own, and that something else has put there, too.
struct CondaOverlap {
  std::string name;
  std::string conda_version;
  std::vector<PythonPackage> others;
  bool operator==(const CondaOverlap&) const = default;
};

/// What came of a real import, at --level full.
struct PythonImport {
  std::string module;
  std::string version;
  std::string trouble;  ///< what it said; empty: it was imported
  bool operator==(const PythonImport&) const = default;
};

/// The interpreter that a job would run under, by its files.
struct PythonFacts {
  std::string asked;       ///< as typed; of the default "python3"
  bool is_named = false;   ///< by the user
  std::string executable;  ///< what it says itself: sys.executable
  std::string version;     ///< "3.11.2"
  std::string trouble;     ///< why it cannot be used, for people; empty: it can
  bool is_late = false;    ///< the trouble is that it did not answer in time
  std::string not_read;    ///< why its packages were not all looked at; empty: they were
  std::vector<PythonPackage> packages;   ///< those that a loader cares about
  std::vector<ThreadLibrary> libraries;  ///< of all packages
  std::vector<CondaOverlap> overlaps;
  bool was_asked_to_import = false;
  std::vector<PythonImport> imports;
  std::vector<std::string> loaded_openmp;  ///< files that one process has mapped after all imports
  std::string import_trouble;              ///< they did not come to their end: why
  bool operator==(const PythonFacts&) const = default;
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
  FolderFacts shared_memory;   ///< /dev/shm, written to
  FolderFacts temporary;
  std::optional<FolderFacts> data;
  std::optional<PythonFacts> python;  ///< none: there is none in PATH, and none was named

  bool operator==(const GateFacts&) const = default;
};

}  // namespace dlprobe
