#pragma once

#include <cstdint>
#include <map>

#include "lib/collect/tree/process_tree.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// When something of a loader last moved, told from outside: a worker read or wrote (each index and
/// each batch goes through a pipe), or a process came or went. Of a tree without workers: any
/// process read, wrote or computed.
class LoaderMotion {
 public:
  /// Takes in what was sampled just now; once a second, when io_calls are read.
  void update(const ProcessTree& tree, BootNs now);

  /// Not before the first update. A tree whose processes do not show it moves all the time.
  BootNs last_moved() const { return last_moved_; }

  /// When the last update was; 0: never.
  BootNs looked_at() const { return looked_at_; }

 private:
  struct Seen {
    uint64_t io_calls = 0;
    uint64_t cpu_ticks = 0;
  };
  std::map<ProcessKey, Seen> seen_;
  BootNs last_moved_ = 0;
  BootNs looked_at_ = 0;
};

}  // namespace dlprobe
