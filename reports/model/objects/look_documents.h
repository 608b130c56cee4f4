#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/loader_job.h"
#include "reports/model/objects/examination.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// A probe that there is.
struct CatalogProbe {
  std::string name;
  std::string summary;
};
constexpr void list_fields(auto&& field, Of<CatalogProbe> /*of*/) {
  field("name", &CatalogProbe::name);
  field("summary", &CatalogProbe::summary);
}

/// A finding that there is.
struct CatalogFinding {
  CodeText code;
  std::string name;
  Severity severity{};
  std::string title;
};
constexpr void list_fields(auto&& field, Of<CatalogFinding> /*of*/) {
  field("code", &CatalogFinding::code);
  field("name", &CatalogFinding::name);
  field("severity", &CatalogFinding::severity);
  field("title", &CatalogFinding::title);
}

/// A format that there is.
struct CatalogFormat {
  std::string name;
  std::string what;
};
constexpr void list_fields(auto&& field, Of<CatalogFormat> /*of*/) {
  field("name", &CatalogFormat::name);
  field("what", &CatalogFormat::what);
}

/// What there is.
struct Catalog {
  Constant<"dlprobe.list"> kind;
  VersionText schema_version;
  Tool tool;
  std::vector<CatalogProbe> probes;
  std::vector<CatalogFinding> findings;
  std::vector<CatalogFormat> formats;
};
constexpr void list_fields(auto&& field, Of<Catalog> /*of*/) {
  field("kind", &Catalog::kind);
  field("schema_version", &Catalog::schema_version);
  field("tool", &Catalog::tool);
  field("probes", &Catalog::probes);
  field("findings", &Catalog::findings);
  field("formats", &Catalog::formats);
}

/// The machine that dlprobe was tried on.
struct DoctorHost {
  std::string name;
  std::string os;
  std::string kernel;
  std::string machine;
  std::string container;
};
constexpr void list_fields(auto&& field, Of<DoctorHost> /*of*/) {
  field("name", &DoctorHost::name);
  field("os", &DoctorHost::os);
  field("kernel", &DoctorHost::kernel);
  field("machine", &DoctorHost::machine);
  field("container", &DoctorHost::container);
}

/// Who dlprobe is here.
struct Rights {
  uint64_t uid = 0;
  std::string capabilities;
  SeccompMode seccomp{};
  std::string ptrace_scope;
  bool own_pid_namespace = false;
};
constexpr void list_fields(auto&& field, Of<Rights> /*of*/) {
  field("uid", &Rights::uid);
  field("capabilities", &Rights::capabilities,
        "effective ones, as the kernel has them: hexadecimal; empty: not known");
  field("seccomp", &Rights::seccomp);
  field("ptrace_scope", &Rights::ptrace_scope, "of Yama; empty: the kernel has none");
  field("own_pid_namespace", &Rights::own_pid_namespace,
        "not the machine's first one: what the kernel logs and traces has other pids");
}

/// Abilities by their state.
struct AbilityCounts {
  uint64_t ok = 0;
  uint64_t limited = 0;
  uint64_t missing = 0;
};
constexpr void list_fields(auto&& field, Of<AbilityCounts> /*of*/) {
  field("ok", &AbilityCounts::ok);
  field("limited", &AbilityCounts::limited);
  field("missing", &AbilityCounts::missing);
}

/// What dlprobe can do here, in short.
struct DoctorSummary {
  DoctorVerdict verdict{};
  std::string headline;
  AbilityCounts counts;
};
constexpr void list_fields(auto&& field, Of<DoctorSummary> /*of*/) {
  field("verdict", &DoctorSummary::verdict,
        "fail: something required is missing; warn: something else is");
  field("headline", &DoctorSummary::headline);
  field("counts", &DoctorSummary::counts);
}

/// Something that dlprobe can do where it is let.
struct Ability {
  std::string name;
  std::string title;
  AbilityState state{};
  bool required = false;
  std::string text;
  std::string needed_for;
  std::string remedy;
};
constexpr void list_fields(auto&& field, Of<Ability> /*of*/) {
  field("name", &Ability::name, "stable: \"stacks.others\"");
  field("title", &Ability::title);
  field("state", &Ability::state);
  field("required", &Ability::required, "without it dlprobe is of no use here");
  field("text", &Ability::text, "what was tried, and what came of it");
  field("needed_for", &Ability::needed_for, "subcommands and findings");
  field("remedy", &Ability::remedy, "what enables it; empty: nothing does, or nothing has to");
}

/// What dlprobe can and cannot do here.
struct Doctor {
  Constant<"dlprobe.doctor"> kind;
  VersionText schema_version;
  Tool tool;
  DoctorHost host;
  Rights rights;
  DoctorSummary summary;
  std::vector<Ability> abilities;
};
constexpr void list_fields(auto&& field, Of<Doctor> /*of*/) {
  field("kind", &Doctor::kind);
  field("schema_version", &Doctor::schema_version);
  field("tool", &Doctor::tool);
  field("host", &Doctor::host);
  field("rights", &Doctor::rights, "who dlprobe is here");
  field("summary", &Doctor::summary);
  field("abilities", &Doctor::abilities);
}

/// A job of this machine.
struct Job {
  int32_t pid = 0;
  uint64_t start_ticks = 0;
  std::string user;
  double age_s = 0;
  uint64_t ranks = 0;
  uint64_t workers = 0;
  bool is_pool = false;
  JobState state{};
  std::optional<double> longest_wait_s;
  bool may_look = true;
  std::optional<uint64_t> shm_bytes;
  std::vector<std::string> cmdline;
  std::vector<std::string> job_ids;
};
constexpr void list_fields(auto&& field, Of<Job> /*of*/) {
  field("pid", &Job::pid, "what to attach to: the trainer, or the launcher of several ranks");
  field("start_ticks", &Job::start_ticks, "of that process, in clock ticks since boot");
  field("user", &Job::user, "the number where the machine's /etc/passwd has no name");
  field("age_s", &Job::age_s, "how long that process has run");
  field("ranks", &Job::ranks, "on this machine; 0: it is no distributed job");
  field("workers", &Job::workers, "of all ranks");
  field("is_pool", &Job::is_pool,
        "its workers are processes of multiprocessing that need not load data");
  field("state", &Job::state,
        "of the main threads of trainers and workers at one look; that all wait is no proof of a "
        "hang");
  field("longest_wait_s", &Job::longest_wait_s,
        "how long the one of these threads that has waited the longest has not run; absent under "
        "10 s, for a pool, and where the kernel does not tell");
  field("may_look", &Job::may_look, "this user may attach to it");
  field("shm_bytes", &Job::shm_bytes,
        "of /dev/shm, what its processes have open or mapped, each segment once; absent where "
        "that cannot be read of each");
  field("cmdline", &Job::cmdline, "of that process, secrets masked");
  field("job_ids", &Job::job_ids, "as a scheduler or torchrun names it");
}

/// A worker that still runs although its trainer has ended.
struct OrphanedWorker {
  int32_t pid = 0;
  uint64_t start_ticks = 0;
  std::string user;
  double age_s = 0;
};
constexpr void list_fields(auto&& field, Of<OrphanedWorker> /*of*/) {
  field("pid", &OrphanedWorker::pid);
  field("start_ticks", &OrphanedWorker::start_ticks, "in clock ticks since boot");
  field("user", &OrphanedWorker::user);
  field("age_s", &OrphanedWorker::age_s, "since it was started");
}

/// The jobs of this machine.
struct Jobs {
  Constant<"dlprobe.ps"> kind;
  VersionText schema_version;
  Tool tool;
  std::vector<Job> jobs;
  std::optional<std::vector<OrphanedWorker>> orphaned_workers;
  uint64_t unseen_processes = 0;
};
constexpr void list_fields(auto&& field, Of<Jobs> /*of*/) {
  field("kind", &Jobs::kind);
  field("schema_version", &Jobs::schema_version);
  field("tool", &Jobs::tool);
  field("jobs", &Jobs::jobs, "those that surely load data first, then by pid");
  field("orphaned_workers", &Jobs::orphaned_workers, "data workers whose trainer has ended");
  field("unseen_processes", &Jobs::unseen_processes,
        "that may be trainers, and that this user may not look into");
}

}  // namespace dlprobe::report
