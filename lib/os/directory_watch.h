#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/os/file_system.h"

namespace dlprobe {

/// Tells which files were made in a directory (inotify IN_CREATE and IN_MOVED_TO).
class DirectoryWatch {
 public:
  /// kUnsupported for a directory of a recorded machine.
  static Expected<DirectoryWatch> start(const Directory& directory);

  struct News {
    std::vector<std::string> created;  ///< hostile text; in order, a name may come twice
    bool overflowed = false;           ///< the kernel dropped some
  };
  /// What has happened since the last call, at most about `limit` names. Does not wait.
  News take(size_t limit) const;

 private:
  explicit DirectoryWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace dlprobe
