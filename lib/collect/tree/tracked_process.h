#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/collect/tree/roles.h"
#include "lib/model/process.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/pid_statm.h"

namespace dlprobe {

/// The newest statm, and what stat said when it was read.
struct MemoryRead {
  Observed<PidStatm> statm = failure(ErrorCode::kInsufficient, "not read");
  MemoryMarks marks;
};

/// The newest look at its pages.
struct PssRead {
  BootNs at = 0;        ///< 0: none yet
  uint64_t faults = 0;  ///< its minor faults then
};

/// How often a process of a large tree is read.
struct Pace {
  uint32_t same = 0;          ///< so many times in a row stat has said the same
  bool rests = false;         ///< at this tick it was not read
  bool owes_children = true;  ///< somebody has forked since its children were looked at
  BootNs status_at = 0;       ///< of its newest status
};

/// One process that is watched, with what is kept open of it. Kept files speak of this process for
/// ever: after its end they say kVanished, and never speak of a new process with its pid.
struct TrackedProcess {
  ProcessKey key;
  std::shared_ptr<const Directory> directory;  ///< /proc/PID
  std::unique_ptr<const KeptFile> stat;
  std::unique_ptr<const KeptFile> statm;
  std::unique_ptr<const KeptFile> children;      ///< of the main thread; null: not offered
  std::shared_ptr<const Directory> descriptors;  ///< /proc/PID/fd; null: not to be had
  UniqueFd pidfd;
  std::optional<Error> pidfd_error;

  PidStat last_stat;
  ProcessSample sample;  ///< of the newest tick
  ProcessInfo info;      ///< as last recorded, or to be recorded
  RoleFacts facts;
  std::optional<uint64_t> main_calls;  ///< io_calls of its main thread: of trainers, workers
  MemoryRead memory;
  bool may_see_memory = false;  ///< the kernel shows its addresses, so also its exit code
  bool info_changed = true;
  BootNs children_scanned_at = 0;  ///< of all its threads
  PssRead pss;
  Pace pace;
  std::optional<BootNs> ended_at;
  bool vanished = false;  ///< reaped
  bool exit_recorded = false;
  bool wakes = false;  ///< its end wakes the collector's caller
};

/// Opens /proc/`pid` and all that is kept of it. kVanished if there is no such process.
Expected<TrackedProcess> open_process(const Machine& machine, int32_t pid);

/// Reads the newest stat into `last_stat`. kVanished after the reap.
Status read_stat(TrackedProcess& process);

/// Reads what seldom changes: command line, program, limits, groups, namespaces. What cannot be
/// read carries its reason; a command line that cannot be read is empty and adds its Error to
/// `errors`.
void read_info(TrackedProcess& process, DeadlineReader& reader, std::vector<Error>& errors);

/// Reads its cgroup anew: a process may be moved.
void refresh_cgroup(TrackedProcess& process);

/// The inode of the namespace of that kind ("mnt", "pid") of the process whose /proc directory it
/// is.
Expected<uint64_t> namespace_of(const Directory& process, std::string_view kind);

/// Whether it lives; a zombie does not.
bool is_alive(const TrackedProcess& process);

/// Whether the process has called execve, or got another name, since `before`.
bool identity_changed(const PidStat& before, const PidStat& now);

/// Whether `child` was forked from `parent` and neither has called execve since: the addresses of
/// program, stack and arguments are the same, and each execve places them anew. Nothing if they
/// cannot be seen.
std::optional<bool> forked_without_exec(const PidStat& child, const PidStat& parent);

/// Whether it was forked by a process that has ended: it has not called execve since, and its
/// parent runs another program (init, or whoever adopts orphans: PR_SET_CHILD_SUBREAPER). False
/// where that cannot be seen.
bool is_orphan(const Machine& machine, const PidStat& stat);

/// Of a process that is not there (or whose pid is not a process), kVanished.
Expected<ProcessKey> process_key(const Machine& machine, int32_t pid);

}  // namespace dlprobe
