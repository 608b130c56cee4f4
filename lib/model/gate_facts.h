#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/sample.h"

namespace dlprobe {

/// A folder that a job reads from or writes to.
struct FolderFacts {
  std::string path;
  std::string trouble;
  std::string not_known;
  std::optional<uint64_t> free_bytes;
  std::optional<uint64_t> entries;
  bool operator==(const FolderFacts&) const = default;
};
constexpr void list_fields(auto&& field, Of<FolderFacts> /*of*/) {
  field("path", &FolderFacts::path, "where it is");
  field("trouble", &FolderFacts::trouble, "why it cannot be used, for people; empty: it can");
  field("not_known", &FolderFacts::not_known, "why that could not be found out; empty: it was");
  field("free", &FolderFacts::free_bytes, "of its file system", Unit::kBytes);
  field("entries", &FolderFacts::entries, "files and folders in it; counted up to a thousand");
}

/// A variable of the environment that says how many threads a library starts.
struct ThreadSetting {
  std::string name;
  std::string value;
  bool operator==(const ThreadSetting&) const = default;
};
constexpr void list_fields(auto&& field, Of<ThreadSetting> /*of*/) {
  field("name", &ThreadSetting::name, R"("OMP_NUM_THREADS")");
  field("value", &ThreadSetting::value, "as it stands");
}

/// A package of an interpreter, by its metadata.
struct PythonPackage {
  std::string name;
  std::string version;
  std::string installer;
  std::string path;
  bool operator==(const PythonPackage&) const = default;
};
constexpr void list_fields(auto&& field, Of<PythonPackage> /*of*/) {
  field("name", &PythonPackage::name, R"(normalized: "scikit-learn")");
  field("version", &PythonPackage::version, "empty: its files do not say");
  field("installer", &PythonPackage::installer, R"("pip", "conda"; empty: it does not say)");
  field("path", &PythonPackage::path,
        "its dist-info or egg-info; of one without, its folder or module");
}

/// A library that keeps threads of its own (thread_keeper), and the packages whose modules would
/// load it.
struct ThreadLibrary {
  std::string name;
  std::vector<std::string> files;
  std::vector<std::string> packages;
  bool operator==(const ThreadLibrary&) const = default;
};
constexpr void list_fields(auto&& field, Of<ThreadLibrary> /*of*/) {
  field("name", &ThreadLibrary::name, "what other files need it by (DT_NEEDED, DT_SONAME)");
  field("files", &ThreadLibrary::files, "of that name, or one file under several names");
  field("packages", &ThreadLibrary::packages, "whose modules would load it");
}

/// A package that conda says is its own, and that something else has put there, too.
struct CondaOverlap {
  std::string name;
  std::string conda_version;
  std::vector<PythonPackage> others;
  bool operator==(const CondaOverlap&) const = default;
};
constexpr void list_fields(auto&& field, Of<CondaOverlap> /*of*/) {
  field("name", &CondaOverlap::name, "of the package");
  field("conda", &CondaOverlap::conda_version, "the version that conda installed");
  field("others", &CondaOverlap::others, "what else has been put there");
}

/// What came of a real import, at --level full.
struct PythonImport {
  std::string module;
  std::string version;
  std::string trouble;
  bool operator==(const PythonImport&) const = default;
};
constexpr void list_fields(auto&& field, Of<PythonImport> /*of*/) {
  field("module", &PythonImport::module, "its name");
  field("version", &PythonImport::version, "what it says of itself");
  field("trouble", &PythonImport::trouble, "what it said; empty: it was imported");
}

/// The interpreter that a job would run under, by its files.
struct PythonFacts {
  std::string asked;
  bool is_named = false;
  std::string executable;
  std::string version;
  std::string trouble;
  bool is_late = false;
  std::string not_read;
  std::vector<PythonPackage> packages;
  std::vector<ThreadLibrary> libraries;
  std::vector<CondaOverlap> overlaps;
  bool was_asked_to_import = false;
  std::vector<PythonImport> imports;
  std::vector<std::string> loaded_openmp;
  std::string import_trouble;
  bool operator==(const PythonFacts&) const = default;
};
constexpr void list_fields(auto&& field, Of<PythonFacts> /*of*/) {
  field("asked", &PythonFacts::asked, R"(as typed; of the default "python3")");
  field("named", &PythonFacts::is_named, "by the user");
  field("executable", &PythonFacts::executable, "what it says itself: sys.executable");
  field("version", &PythonFacts::version, R"("3.11.2")");
  field("trouble", &PythonFacts::trouble, "why it cannot be used, for people; empty: it can");
  field("late", &PythonFacts::is_late, "the trouble is that it did not answer in time");
  field("not_read", &PythonFacts::not_read,
        "why its packages were not all looked at; empty: they were");
  field("packages", &PythonFacts::packages, "those that a loader cares about");
  field("libraries", &PythonFacts::libraries, "of all packages");
  field("overlaps", &PythonFacts::overlaps,
        "packages that conda and something else have installed");
  field("import_asked", &PythonFacts::was_asked_to_import,
        "real imports were asked for (--level full)");
  field("imports", &PythonFacts::imports, "what came of them");
  field("openmp", &PythonFacts::loaded_openmp,
        "files that one process has mapped after all imports");
  field("import_trouble", &PythonFacts::import_trouble, "they did not come to their end: why");
}

/// What `dlprobe gate` asks of the machine before a loader is started, beside its shared memory.
struct GateFacts {
  BootNs at = 0;
  std::string level;
  BootNs deadline = 0;
  Observed<Limit> processes = failure(ErrorCode::kInsufficient, "not read");
  bool is_root = false;
  Observed<uint64_t> tasks_of_user = failure(ErrorCode::kInsufficient, "not read");
  std::optional<uint64_t> cgroup_tasks;
  std::optional<uint64_t> cgroup_tasks_limit;
  Observed<uint64_t> tasks = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> most_tasks = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> files_open = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> most_files = failure(ErrorCode::kInsufficient, "not read");
  Observed<HostMemory> memory = failure(ErrorCode::kInsufficient, "not read");
  std::optional<CgroupMemory> cgroup;
  uint32_t cpus_online = 0;
  uint32_t cpus_usable = 0;
  std::optional<double> cpu_quota;
  std::string cpu_quota_source;
  std::vector<ThreadSetting> thread_settings;
  Observed<int32_t> ptrace_scope = failure(ErrorCode::kInsufficient, "not read");
  bool may_trace_all = false;
  FolderFacts shared_memory;
  FolderFacts temporary;
  std::optional<FolderFacts> data;
  std::optional<PythonFacts> python;

  bool operator==(const GateFacts&) const = default;
};
constexpr void list_fields(auto&& field, Of<GateFacts> /*of*/) {
  field("at", &GateFacts::at, "when the machine was asked", Unit::kMoment);
  field("level", &GateFacts::level, R"("quick", "default", "full")");
  field("deadline", &GateFacts::deadline, "what is not done by then is incomplete; 0: none",
        Unit::kMoment);
  field("processes", &GateFacts::processes, "RLIMIT_NPROC");
  field("root", &GateFacts::is_root, "RLIMIT_NPROC does not hold it (CAP_SYS_RESOURCE)");
  field("user_tasks", &GateFacts::tasks_of_user, "threads that the user runs");
  field("cg_tasks", &GateFacts::cgroup_tasks, "pids.current");
  field("cg_tasks_limit", &GateFacts::cgroup_tasks_limit, "pids.max");
  field("tasks", &GateFacts::tasks, "of the machine");
  field("most_tasks", &GateFacts::most_tasks, "threads that the machine can have");
  field("files", &GateFacts::files_open, "fs.file-nr");
  field("most_files", &GateFacts::most_files, "fs.file-max");
  field("memory", &GateFacts::memory, "of the host, as in a sample");
  field("cg", &GateFacts::cgroup, "none: dlprobe is in no memory cgroup that it can see");
  field("cpus_online", &GateFacts::cpus_online, "CPUs of the machine");
  field("cpus_usable", &GateFacts::cpus_usable, "by affinity");
  field("quota", &GateFacts::cpu_quota, "CPUs' worth of time; none: no quota");
  field("quota_source", &GateFacts::cpu_quota_source, "the file that says so");
  field("threads", &GateFacts::thread_settings,
        "variables that say how many threads a library starts");
  field("ptrace_scope", &GateFacts::ptrace_scope, "kernel.yama.ptrace_scope");
  field("may_trace", &GateFacts::may_trace_all, "CAP_SYS_PTRACE");
  field("shm", &GateFacts::shared_memory, "/dev/shm, written to");
  field("tmp", &GateFacts::temporary, "the folder for temporary files");
  field("data", &GateFacts::data, "the folder with the data, if it was named");
  field("python", &GateFacts::python, "none: there is none in PATH, and none was named");
}

}  // namespace dlprobe
