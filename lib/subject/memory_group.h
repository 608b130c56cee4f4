#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/os/cgroup_tree.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// A memory cgroup of dlprobe's own making, for one command: below the group that dlprobe runs in,
/// so that the limits of that one hold as well. Swap is not a way out of its limit.
///
/// Its name has dlprobe's pid and start time, "dlprobe-PID-START". create() removes the empty
/// groups of dlprobes that were killed.
///
/// In a v2 hierarchy a group with processes of its own gives its children no controllers. There
/// dlprobe needs a group to itself (a unit or scope with Delegate=yes): it moves into a child
/// group, "dlprobe-PID-START.self", until the end.
class MemoryGroup {
 public:
  /// kInvalid for a limit above what this machine or dlprobe's own group allows; otherwise what the
  /// kernel said, with what would be needed.
  static Expected<std::unique_ptr<MemoryGroup>> create(const Machine& machine, CgroupTree& tree,
                                                       uint64_t limit_bytes);

  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  /// Removes it if it can.
  ~MemoryGroup();

  const std::string& path() const { return path_; }
  /// Of its cgroup.procs: a process that writes "0" there joins the group.
  int procs_fd() const { return procs_.get(); }

  /// Removes it, and takes back what else was changed. While there are processes in it that is not
  /// possible: the error says how many and where. A group that is gone is no error.
  Status remove();

 private:
  MemoryGroup(Machine machine, CgroupTree& tree) : machine_(std::move(machine)), tree_(tree) {}
  Status take_back_controller();

  Machine machine_;
  CgroupTree& tree_;
  std::string path_;      ///< empty: there is none (any more)
  std::string own_path_;  ///< v2: the group that dlprobe moved to; empty: it did not
  bool offered_ = false;  ///< v2: dlprobe gave the children of its group the memory controller
  std::string parent_;
  UniqueFd procs_;
};

}  // namespace dlprobe
