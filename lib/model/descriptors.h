#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/ids.h"

namespace dlprobe {

/// What a descriptor leads to.
enum class FdKind {
  kFile,     ///< a regular file or a folder of a file system
  kSocket,   ///< of any family
  kPipe,     ///< or a named FIFO
  kEventfd,  ///< eventfd(2)
  kEpoll,    ///< epoll(7)
  kSegment,  ///< a file in /dev/shm, with a name or without
  kMemfd,    ///< memfd_create(2)
  kDevice,   ///< a terminal, /dev/null, a GPU
  kOther,    ///< timerfd, signalfd, inotify, pidfd ...
};
inline constexpr std::array kFdKinds = {FdKind::kFile,    FdKind::kSocket, FdKind::kPipe,
                                        FdKind::kEventfd, FdKind::kEpoll,  FdKind::kSegment,
                                        FdKind::kMemfd,   FdKind::kDevice, FdKind::kOther};

std::string_view to_string(FdKind kind);  ///< "file", "socket" ... "shm-segment" ... "other"
FdKind fd_kind_from_string(std::string_view name);  ///< kOther for a name that is not known

/// Descriptors of one process, counted by what they lead to.
struct FdKinds {
  std::array<uint64_t, kFdKinds.size()> counts = {};  ///< in the order of kFdKinds
  uint64_t unlinked_segments = 0;                     ///< of the segments: those without a name

  uint64_t& operator[](FdKind kind) { return counts.at(static_cast<size_t>(kind)); }
  uint64_t operator[](FdKind kind) const { return counts.at(static_cast<size_t>(kind)); }
  uint64_t total() const;
  bool operator==(const FdKinds&) const = default;
};

/// Descriptors of one process that lead to the same: one file, the files of one folder, the
/// segments of one creator.
struct FdGroup {
  FdKind kind = FdKind::kOther;
  /// "/data/a.bin", "/data/*", "/dev/shm/torch_42_*", "socket"; hostile text.
  std::string name;
  uint64_t count = 0;
  bool operator==(const FdGroup&) const = default;
};

/// A closer look at a process whose descriptors grow, or come near its limit.
struct FdLook {
  BootNs at = 0;
  ProcessKey key;
  uint64_t count = 0;         ///< of all
  uint64_t looked_at = 0;     ///< of so many, the newest, it is known what they lead to
  FdKinds kinds;              ///< of these
  uint64_t in_flight = 0;     ///< in queues of its UNIX sockets (fdinfo scm_fds), not yet received
  std::vector<FdGroup> most;  ///< of these, the largest groups first
  bool operator==(const FdLook&) const = default;
};

}  // namespace dlprobe
