#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fields.h"
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
template <>
struct Names<FdKind> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"file", "socket", "pipe", "eventfd", "epoll", "shm-segment", "memfd", "device", "other"});
};
/// Descriptors of one process, counted by what they lead to.
struct FdKinds {
  uint64_t files = 0;
  uint64_t sockets = 0;
  uint64_t pipes = 0;
  uint64_t eventfds = 0;
  uint64_t epolls = 0;
  uint64_t segments = 0;
  uint64_t unlinked_segments = 0;
  uint64_t memfds = 0;
  uint64_t devices = 0;
  uint64_t others = 0;

  uint64_t& operator[](FdKind kind);
  uint64_t operator[](FdKind kind) const;
  /// Of all kinds.
  uint64_t total() const;
  bool operator==(const FdKinds&) const = default;
};
constexpr void list_fields(auto&& field, Of<FdKinds> /*of*/) {
  field("file", &FdKinds::files, "regular files and folders");
  field("socket", &FdKinds::sockets, "sockets of any family");
  field("pipe", &FdKinds::pipes, "pipes and FIFOs");
  field("eventfd", &FdKinds::eventfds, "eventfd(2)");
  field("epoll", &FdKinds::epolls, "epoll(7)");
  field("seg", &FdKinds::segments, "files in /dev/shm, with a name or without");
  field("seg_unlinked", &FdKinds::unlinked_segments, "of the segments: those without a name");
  field("memfd", &FdKinds::memfds, "memfd_create(2)");
  field("device", &FdKinds::devices, "terminals, /dev/null, GPUs");
  field("other", &FdKinds::others, "timerfd, signalfd, inotify, pidfd and more");
}

/// Descriptors of one process that lead to the same: one file, the files of one folder, the
/// segments of one creator.
struct FdGroup {
  FdKind kind = FdKind::kOther;
  std::string name;
  uint64_t count = 0;
  bool operator==(const FdGroup&) const = default;
};
constexpr void list_fields(auto&& field, Of<FdGroup> /*of*/) {
  field("kind", &FdGroup::kind, "what they lead to");
  field("name", &FdGroup::name,
        R"("/data/a.bin", "/data/*", "/dev/shm/torch_42_*", "socket"; hostile text)");
  field("count", &FdGroup::count, "how many they are");
}

/// A closer look at a process whose descriptors grow, or come near its limit.
struct FdLook {
  BootNs at = 0;
  ProcessKey key;
  uint64_t count = 0;
  uint64_t looked_at = 0;
  FdKinds kinds;
  uint64_t in_flight = 0;
  std::vector<FdGroup> most;
  bool operator==(const FdLook&) const = default;
};
constexpr void list_fields(auto&& field, Of<FdLook> /*of*/) {
  field("at", &FdLook::at, "when it was looked at", Unit::kMoment);
  field("key", &FdLook::key, "the process");
  field("count", &FdLook::count, "descriptors, all of them");
  field("looked_at", &FdLook::looked_at,
        "of so many of them, the newest, it is known what they lead to");
  field("kinds", &FdLook::kinds, "of these");
  field("in_flight", &FdLook::in_flight,
        "in queues of its UNIX sockets (fdinfo scm_fds), not yet received");
  field("most", &FdLook::most, "of these, the largest groups first");
}

}  // namespace dlprobe
