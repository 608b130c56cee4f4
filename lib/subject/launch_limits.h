#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/error.h"
#include "lib/os/cgroup_tree.h"
#include "lib/os/machine.h"
#include "lib/subject/child_process.h"
#include "lib/subject/memory_group.h"

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

/// kInvalid, with the option's name in front, for what makes no sense wherever it is tried: nothing
/// could start in it, or dlprobe itself may not have as much.
Status check_launch_limits(const LaunchLimits& limits);

/// The limits of one command, made ready. What dlprobe makes for them is there while this lives.
class LaunchScope {
 public:
  /// Nothing is made without limits. Errors say what would be needed.
  static Expected<LaunchScope> prepare(const Machine& machine, const LaunchLimits& limits);

  /// For ChildSpec::limits.
  ChildLimits child_limits() const;

  /// "memory 64.0 MiB (cgroup /...), 256 open files, a /dev/shm of its own of 64.0 MiB"; empty
  /// without limits.
  std::string description() const;

  /// After the command's end: takes away what was made. An error says what remains, and where.
  Status close();

 private:
  explicit LaunchScope(const LaunchLimits& limits) : limits_(limits) {}
  LaunchLimits limits_;
  std::unique_ptr<CgroupTree> tree_;  ///< outlives the group
  std::unique_ptr<MemoryGroup> group_;
};

}  // namespace dlprobe
