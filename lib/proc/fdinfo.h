#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// /proc/PID/fdinfo/FD.
struct FdInfo {
  uint64_t position = 0;
  uint64_t flags = 0;               ///< open(2) flags
  std::optional<uint64_t> scm_fds;  ///< of a UNIX socket: descriptors in flight in its queue
  /// The open file has a lock of flock(2), or the process one of fcntl(2) ("lock:").
  bool holds_lock = false;
  std::vector<int32_t> lock_takers;    ///< the processes that took these locks
  uint64_t eventfd_id = 0;             ///< of an eventfd, on this machine; 0: none, or not told
  std::vector<int32_t> epoll_targets;  ///< of an epoll: the descriptors it watches ("tfd:")

  bool operator==(const FdInfo&) const = default;
};

Expected<FdInfo> parse_fdinfo(std::string_view text);

}  // namespace dlprobe
