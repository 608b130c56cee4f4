#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "tools/reference_loader/fault.h"

namespace dlprobe::loader {

/// The stage of a fault: what is made before the loader starts, in /dev/shm or in memory.
///
/// What is in /dev/shm is in a mount namespace of this process and its children, with a tmpfs of
/// its own on /dev/shm: the machine's is not touched, and the last process takes everything with
/// it.
class FaultScene {
 public:
  /// Sets it. To be called while this process has no other thread (a user namespace, which is how
  /// it works without root, wants that). kForbidden if the kernel allows no mount namespace.
  static Expected<FaultScene> set(const FaultEffects& effects);

  /// What was done, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  /// The file of a lock whose holder was killed; -1: none.
  int dead_lock() const { return dead_lock_.get(); }

 private:
  std::vector<std::string> notes_;
  UniqueFd dead_lock_;
  UniqueFd other_job_;  ///< the other job ends when this is closed
};

}  // namespace dlprobe::loader
