#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/process.h"

namespace dlprobe {

/// What a command is to begin within; what is not given stays as it is without dlprobe.
struct LaunchLimits {
  std::optional<uint64_t> memory_bytes;  ///< of all its processes: a cgroup of its own
  std::optional<uint64_t> open_files;    ///< RLIMIT_NOFILE, soft and hard
  std::optional<uint64_t> shm_bytes;     ///< of a /dev/shm of its own
  /// RLIMIT_NOFILE, soft alone: up to the hard limit that it has otherwise.
  std::optional<uint64_t> soft_open_files;

  bool any() const { return memory_bytes || open_files || shm_bytes || soft_open_files; }
};

/// What to start and how.
struct ChildSpec {
  std::vector<std::string> argv;  ///< argv[0] is looked up in PATH as a shell does
  /// Descriptors to give to the child: (ours, its number). Everything else but 0, 1, 2 is closed.
  std::vector<std::pair<int, int>> descriptors;
  bool dies_with_us = false;   ///< PR_SET_PDEATHSIG SIGKILL: for our own programs only
  bool adopts_orphans = true;  ///< dlprobe becomes the parent of its orphans
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to dlprobe's own
  bool own_process_group = false;                                ///< else it is in dlprobe's
  LaunchLimits limits;    ///< all but the memory, which is its cgroup's
  int cgroup_procs = -1;  ///< of the cgroup that it joins: cgroup.procs, open for writing
  /// Called with the pid while the child is within its limits and waits, before it becomes the
  /// command; or none.
  std::function<void(pid_t)> before_exec;
};

/// Starts a process that dlprobe has to reap: its pid. kNotFound: no such command (exit 127).
/// kForbidden: not executable (exit 126). kUnsupported: a limit cannot be had, and the command was
/// not started.
///
/// The child sees what it would see without dlprobe: the same standard streams, terminal, process
/// group, working directory, environment, signal dispositions, signal mask and resource limits,
/// but for the limits asked for.
/// Orphans of the child become children of dlprobe (PR_SET_CHILD_SUBREAPER), which has to reap
/// them, too.
Expected<pid_t> start_child(const ChildSpec& spec);

/// A child of ours that has ended; still a zombie until reap().
struct EndedChild {
  pid_t pid = 0;
  int wait_status = 0;  ///< as wait(2) encodes it
};

/// The next ended child that was not reaped yet, without reaping it; nothing if there is none.
/// While it is a zombie its /proc/PID/stat can still be read.
std::optional<EndedChild> next_ended_child();

/// Whether dlprobe has a child that was not reaped yet, living or not.
bool has_children();

/// Reaps that child.
void reap(const EndedChild& child);

/// The RLIMIT_NOFILE that a child gets: dlprobe's own as it was started with. Nothing if it cannot
/// be read.
std::optional<Limit> open_files_limit_of_children();

/// Remembers signal dispositions, the signal mask and RLIMIT_NOFILE as dlprobe was started with,
/// for its children. Call once, first thing in main.
void remember_inherited_state();

}  // namespace dlprobe
