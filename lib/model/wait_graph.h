#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/message.h"
#include "lib/base/names.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/snapshot.h"

namespace dlprobe {

/// What a thread did between the first and the last snapshot, each with its own proof.
enum class Activity {
  kUnknown,          ///< seen once only, or its counters could not be read
  kStuck,            ///< never ran, and nothing that could wake it was found
  kWaiting,          ///< never ran; somebody who lives can wake it
  kIdle,             ///< wakes now and then and waits for work again: a parked worker, a pool
  kRunning,          ///< ran, and its frames moved
  kSpinning,         ///< ran all the time in the same frames without giving anything on
  kSleeping,         ///< in a timed sleep
  kStopped,          ///< by a signal or a debugger
  kBlockedInKernel,  ///< state D: a disk, a network file system
};
template <>
struct Names<Activity> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"unknown", "stuck", "waiting", "idle", "running", "spinning",
                                       "sleeping", "stopped", "blocked in the kernel"});
};

/// A thread, or what it waits for.
struct WaitNode {
  std::string id;  ///< "thread 4711/4713", "mutex 4711:0x7f..", "pipe 81234": unique in the graph
  Message label;   ///< for people: "worker 4711", "mutex in libfoo.so (worker 4711)"
  bool is_thread = false;

  // Of a thread.
  std::optional<ProcessKey> process;
  int32_t tid = 0;
  Role role = Role::kOther;
  Activity activity = Activity::kUnknown;
  std::optional<BootNs> since;   ///< since when it has not moved, as far as was watched
  Message waits_for;             ///< in words: "a mutex held by thread 4690, which is not here"
  std::optional<StackFrame> at;  ///< the innermost frame
  std::optional<StackFrame> in_code;  ///< the innermost frame of the user's own Python code

  bool operator==(const WaitNode&) const = default;
};

/// `from` needs `to`.
struct WaitEdge {
  std::string from;
  std::string to;
  std::string relation;  ///< "waits for", "held by", "written by", "joins" ...
  bool operator==(const WaitEdge&) const = default;
};

/// Who waits for what, and who holds it, over the whole tree at the last snapshot of a run.
struct WaitGraph {
  int run = 0;                     ///< index of the run
  std::vector<WaitNode> nodes;     ///< main threads and stuck threads first, then objects
  std::vector<WaitEdge> edges;     ///< in the order of their `from` nodes
  std::vector<std::string> chain;  ///< ids from the trainer's main thread to the root cause

  bool operator==(const WaitGraph&) const = default;
};

}  // namespace dlprobe
