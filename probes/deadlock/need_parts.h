#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/deadlock/facts.h"

namespace dlprobe::probes::deadlock {

/// A thread that waits, among the others of its tree: what all readers of needs ask about it.
class Waiter {
 public:
  Waiter(const Facts& facts, const ThreadFacts& waiter)
      : facts_(facts), waiter_(waiter), thread_(*waiter.thread) {}

 protected:
  /// The threads of its process that may wake it; indices into Facts::threads.
  std::vector<size_t> others_of_the_process() const;
  std::vector<size_t> threads_of(int32_t pid) const;
  /// Whether that thread serves a process group (c10d, Gloo) or a GPU, and this one has no part in
  /// a group: it takes connections and messages all the time, and no lock or file of the user's.
  bool is_beside_the_point(size_t other) const;
  /// "mutex 4711:0x7f10": an object of its process.
  std::string object_id(std::string_view what, uint64_t address) const;
  /// " in libgomp.so.1": where it waits; may be empty.
  Message in_library() const;

  const Facts& facts_;
  const ThreadFacts& waiter_;
  const ThreadSnapshot& thread_;
};

/// Of a thread that waits in a futex: a lock, a notification, a thread, a team, the GIL.
Need need_of_futex(const Facts& facts, const ThreadFacts& waiter);
/// Of a thread that waits in a semaphore of multiprocessing, which several processes share.
Need need_of_shared_semaphore(const Facts& facts, const ThreadFacts& waiter);
/// Of a thread that waits on pipes and sockets, for data or for room.
Need need_of_files(const Facts& facts, const ThreadFacts& waiter, bool for_data);
/// Of a thread that waits for a connection to its socket.
Need need_of_accept(const ThreadFacts& waiter);
/// Of a thread that waits for a disk, or for a server of files.
Need need_of_storage(const ThreadFacts& waiter);

}  // namespace dlprobe::probes::deadlock
