#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "lib/os/file_system.h"

namespace dlprobe {

/// Takes away the temporary folders that Python's processes of a trial made and did not live to
/// remove: what its shim wrote into the file `leftovers` of `folder`, as far as multiprocessing
/// names them (pymp-*) and this user owns them.
void remove_leftovers(const std::string& folder);

/// Whether that process is one of multiprocessing's resource trackers, which unlink the named
/// semaphores and segments of the others when those have ended, and then end by themselves.
bool is_resource_tracker(const Directory& proc, pid_t pid);

/// Named semaphores of processes that are killed: of multiprocessing those that they have mapped,
/// of which a resource tracker may not have heard yet, and those that sem_open(3) is about to give
/// their name.
class LostSemaphores {
 public:
  /// That process is stopped.
  void note(const Directory& proc, pid_t pid);
  /// Unlinks what is left of them, once their resource trackers have ended.
  void remove(const Directory& root) const;

 private:
  std::set<std::pair<uint64_t, uint64_t>> mapped_;  // device and inode
  std::set<std::pair<uint64_t, uint64_t>> open_;
};

}  // namespace dlprobe
