#pragma once

#include <string>

#include "lib/session/watch.h"

namespace dlprobe {

/// What the parts of one watch share.
struct WatchedTree {
  WatchedTree(const WatchTools& with, WatchTarget watched, WatchGuide& guided_by);
  ~WatchedTree() = default;
  WatchedTree(const WatchedTree&) = delete;
  WatchedTree& operator=(const WatchedTree&) = delete;

  BootNs now() const { return tools.machine.clock->now(); }
  bool root_ended() const;
  bool interrupted_pid() const { return result.interrupted_by != 0 && !target.child; }
  void note(Message text);

  WatchTools tools;
  WatchGuide& guide;
  WatchTarget target;
  TreeCollector collector;
  WatchResult result;
};

/// Takes in all signals that came. Returns whether the next look should come at once.
bool take_signals(WatchedTree& tree);

/// Reaps all children that have ended, and records how. Whether there was one.
bool reap_children(WatchedTree& tree);

}  // namespace dlprobe
