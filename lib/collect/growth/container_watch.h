#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "lib/base/units.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/collect/tree/time_budget.h"
#include "lib/model/container_look.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Which containers of Python processes grow while their memory, threads or descriptors do.
///
/// Reads the memory of one process at a time, while that runs; stops nobody. It looks when
/// something of the process has become more since it was 3 s old, or since the look before: at
/// first a second later, then more and more seldom, within 0.5 % of a core. Not thread-safe.
class ContainerWatch {
 public:
  explicit ContainerWatch(Machine machine);
  ~ContainerWatch();
  ContainerWatch(const ContainerWatch&) = delete;
  ContainerWatch& operator=(const ContainerWatch&) = delete;

  /// Begins to look at one process where one is due, and adds to `sink` what an earlier look found.
  void look_if_due(const ProcessTree& tree, BootNs now, RecordSink& sink);

 private:
  struct State;
  /// What a process had when it was looked at, or 3 s old.
  struct Had {
    BootNs at = 0;
    BootNs every = 0;
    uint64_t memory = 0;
    uint64_t descriptors = 0;
    int32_t threads = 0;
    size_t children = 0;  ///< those that have ended among them
  };

  static Had has_now(const TrackedProcess& process, size_t children, BootNs now);
  bool is_due(const TrackedProcess& process, size_t children, BootNs now);
  void take_answer(RecordSink& sink);

  Machine machine_;
  DeadlineReader reader_{std::chrono::nanoseconds(0)};
  std::shared_ptr<State> state_;
  std::map<ProcessKey, Had> had_;
  TimeBudget budget_{0.005, kSecond};
  bool is_looking_ = false;
};

}  // namespace dlprobe
