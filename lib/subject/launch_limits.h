#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/error.h"
#include "lib/base/message.h"
#include "lib/os/cgroup_tree.h"
#include "lib/os/machine.h"
#include "lib/subject/child_process.h"
#include "lib/subject/memory_group.h"

namespace dlprobe {

/// kInvalid, with the option's name in front, for what makes no sense wherever it is tried: nothing
/// could start in it, or dlprobe itself may not have as much.
Status check_launch_limits(const LaunchLimits& limits);

/// The limits of one command, made ready. What dlprobe makes for them is there while this lives.
class LaunchScope {
 public:
  /// Nothing is made without limits. Errors say what would be needed.
  static Expected<LaunchScope> prepare(const Machine& machine, const LaunchLimits& limits);

  /// For ChildSpec::cgroup_procs.
  int cgroup_procs() const { return group_ ? group_->procs_fd() : -1; }

  /// "memory 64.0 MiB (cgroup /...), 256 open files, a /dev/shm of its own of 64.0 MiB"; empty
  /// without limits.
  Message description() const;

  /// After the command's end: takes away what was made. An error says what remains, and where.
  Status close();

 private:
  explicit LaunchScope(const LaunchLimits& limits) : limits_(limits) {}
  LaunchLimits limits_;
  std::unique_ptr<CgroupTree> tree_;  ///< outlives the group
  std::unique_ptr<MemoryGroup> group_;
};

}  // namespace dlprobe
