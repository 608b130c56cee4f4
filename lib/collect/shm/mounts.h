#pragma once

#include <memory>
#include <vector>

#include "lib/collect/tree/process_tree.h"
#include "lib/model/shm.h"

namespace dlprobe {

/// A /dev/shm that a process of the tree sees, pinned by an O_PATH descriptor (which keeps that
/// tmpfs and its files in memory).
struct WatchedMount {
  ShmMount mount;
  std::shared_ptr<const Directory> directory;
};

/// Every /dev/shm that the processes of a tree see, one for each file system.
class ShmMounts {
 public:
  explicit ShmMounts(Machine machine) : machine_(std::move(machine)) {}

  /// Looks at the mount namespaces of the members; returns those mounts that are new. `again` looks
  /// also where it has looked before: a process may mount another /dev/shm in place of the old one.
  std::vector<ShmMount> update(const ProcessTree& tree, bool again);

  /// statvfs of a mount.
  Observed<ShmUse> use(const WatchedMount& watched) const;

  const std::vector<WatchedMount>& all() const { return mounts_; }

  /// Which mount (its device) the processes of that mount namespace see; 0 if it is none of these.
  uint64_t device_of_namespace(uint64_t mount_namespace) const;

  /// What could not be looked at since the last call.
  std::vector<Error> take_errors() { return std::exchange(errors_, {}); }

 private:
  struct Seen {
    uint64_t mount_namespace = 0;
    uint64_t device = 0;
  };
  void look_through(const TrackedProcess& process, uint64_t mount_namespace,
                    std::vector<ShmMount>& found);
  void look_at_own(const TrackedProcess& process, std::vector<ShmMount>& found);

  Machine machine_;
  std::vector<WatchedMount> mounts_;
  std::vector<Seen> seen_;
  std::vector<Error> errors_;
};

}  // namespace dlprobe
