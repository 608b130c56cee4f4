#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/collect/deaths/death_watch.h"
#include "lib/collect/deaths/exit_watch.h"
#include "lib/collect/deaths/oom_watch.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"
#include "lib/os/wake_set.h"

namespace dlprobe {

/// The ends of a tree's members: notices them, hears who killed whom, and wakes its caller for
/// them. Emits what ExitWatch, DeathWatch and OomWatch do. Not thread-safe.
class EndWatch {
 public:
  EndWatch(const Machine& machine, RecordSink& sink);

  /// From now on hears of fatal signals and OOM kills. `reader` must outlive it.
  void listen_to_deaths(DeadlineReader& reader);

  /// Lets the ends of new members wake the caller, too. Whether there are new ones.
  bool know_new_members(ProcessTree& tree);

  /// Takes what the kernel told of deaths. Members that ended must still be in the tree.
  void read_deaths(const ProcessTree& tree);
  /// The same. `counters`: those of OOM kills may have moved, too.
  void look_at_deaths(ProcessTree& tree, bool counters);

  /// Whether a member has ended since the last call.
  bool check(ProcessTree& tree);
  /// See ExitWatch::note.
  void note(ProcessTree& tree, const ProcessKey& key, int wait_status, std::string source);
  bool take_failed() { return exits_.take_failed(); }

  /// To be polled for reading: a member has ended or was sent a fatal signal. -1: nothing to poll,
  /// or it woke the caller too often since the last sample.
  int wake_descriptor() const;
  /// The caller has woken.
  void forget_wakes() const;
  void count_wake() { ++wakes_; }
  /// A sample was taken.
  void begin_to_count() { wakes_ = 0; }

 private:
  void wake_by(const std::vector<int>& descriptors) const;

  Machine machine_;
  RecordSink& sink_;
  ExitWatch exits_;
  OomWatch oom_;
  std::optional<DeathWatch> deaths_;
  Expected<WakeSet> wake_set_ = failure(ErrorCode::kInsufficient, "not made");
  int wakes_ = 0;  ///< early calls since the last sample
};

}  // namespace dlprobe
