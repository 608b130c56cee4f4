#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/collect/tree/tracked_process.h"

namespace dlprobe {

/// The processes that belong to a subject: the root and whatever descends from it, also after it
/// was orphaned. A member stays one until it has been reaped.
class ProcessTree {
 public:
  /// `adopter`: a process (dlprobe itself as a subreaper) whose children that are younger than the
  /// root belong to the tree, too; 0: none.
  ProcessTree(Machine machine, const ProcessKey& root, int32_t adopter);

  /// Finds new members and drops those that are gone and whose exit was recorded. Cheap when
  /// nothing was forked anywhere on the machine since the last call. In a large tree those that
  /// stand still are looked at less often, unless `of_all`.
  void discover(DeadlineReader& reader, bool of_all = true);

  /// Reads stat of every member into its sample, and statm where stat says that its memory has
  /// moved, or of all. A member that has another program, name or parent now has its info read
  /// anew. In a large tree those that have long stood still are read at each third call alone,
  /// unless `of_all`.
  void sample(DeadlineReader& reader, bool of_all);

  /// Gives every member its role; marks those whose info changed by it.
  void update_roles();

  /// A member has ended, and its last stat may tell more of what it was.
  void note_end() { roles_stale_ = true; }

  /// Takes in what the newest status of a member says; a worker installs its handlers after a
  /// while.
  void note_signals_caught(TrackedProcess& process, uint64_t signals);

  /// Takes in which rank a member, or its memory, says that it is: a program may set the variables
  /// itself, after its start.
  void note_rank(const ProcessKey& key, const JobRank& rank);

  std::map<ProcessKey, TrackedProcess>& members() { return members_; }
  const std::map<ProcessKey, TrackedProcess>& members() const { return members_; }
  const ProcessKey& root() const { return root_; }

  /// The member, living or not, that last had this pid in its own pid namespace.
  std::optional<ProcessKey> find_by_own_pid(int32_t pid) const;
  /// A member that has not ended.
  bool lives(const ProcessKey& key) const;

  /// The members that live; zombies do not.
  std::vector<ProcessKey> living() const;

  /// Whether it has so many members that what stands still is looked at less often.
  bool is_large() const;
  /// In a large tree: what its stat says has long been the same.
  bool stands_still(const TrackedProcess& process) const;

  /// What could not be read since the last call.
  std::vector<Error> take_errors() { return std::exchange(errors_, {}); }

 private:
  bool forked_since_last_time();
  void scan_children(bool of_all);
  void scan_member(const ProcessKey& key, BootNs now, bool all_threads);
  void scan_all_processes();
  void adopt();
  void add(int32_t pid, const std::optional<ProcessKey>& parent);
  void add_children(std::string_view pids, const ProcessKey& parent);
  bool is_member(int32_t pid) const;
  void prune();
  bool may_rest(const TrackedProcess& process) const;
  bool read_anew(TrackedProcess& process, DeadlineReader& reader);
  void note_layout(TrackedProcess& process) const;

  Machine machine_;
  ProcessKey root_;
  int32_t adopter_;
  std::map<ProcessKey, TrackedProcess> members_;
  std::vector<RoleFacts> dead_;  ///< of dead members on which the roles of living ones rest
  std::set<int32_t> member_pids_;
  std::map<int32_t, ProcessKey> own_pids_;  ///< by the pid in the process's own pid namespace
  std::vector<ProcessKey> added_;
  std::vector<Error> errors_;
  std::unique_ptr<const KeptFile> load_average_;
  std::string last_pid_;
  uint32_t ticks_ = 0;
  bool children_files_ = true;  ///< the kernel offers task/TID/children
  bool children_owed_ = false;  ///< those of some members were left for later
  bool roles_stale_ = true;
};

}  // namespace dlprobe
