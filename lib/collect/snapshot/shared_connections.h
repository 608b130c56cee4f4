#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "lib/model/snapshot.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Whoever starts a process hands on descriptors 0 to 2: that they are shared means nothing.
inline constexpr int32_t kLastStandardStream = 2;

/// TCP connections that several processes of a tree have since a fork, and who reads from them.
///
/// A connection has one stream of bytes: an answer goes to whichever process reads next. Who reads
/// is seen by the system call that a thread is in; that two do so at once, by a thread that has not
/// run while another one was seen in its call. Sockets that only listen, UNIX sockets and standard
/// streams are left out. Not thread-safe.
class SharedConnectionWatch {
 public:
  /// Adds them to the processes of `look`, in their order. Takes a few microseconds for each open
  /// descriptor; where a connection is shared a few milliseconds, and never more than 100.
  void look(const Machine& machine, SharedFileLook& look);

 private:
  DeadlineReader reader_{kLimit};
  static constexpr std::chrono::milliseconds kLimit{100};
};

}  // namespace dlprobe
