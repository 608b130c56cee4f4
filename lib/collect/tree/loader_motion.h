#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "lib/collect/tree/process_tree.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// When a loader last moved, told from outside. It moves while a worker reads or writes (each index
/// and each batch goes through a pipe), in its main thread or with some computing: a manager of
/// multiprocessing answers in other threads whoever asks it again and again. And while a trainer
/// reads, writes or computes: workers that read one file after the other and never have a batch
/// move nothing. A process that came or went moves it, too. A tree without workers moves when any
/// process but a launcher (which asks how its children are) reads, writes or computes; a rank of a
/// job when it does both.
class LoaderMotion {
 public:
  /// Takes in what was sampled just now; once a second, when io_calls are read.
  void update(const ProcessTree& tree, BootNs now);

  /// Not before the first update. A tree whose processes do not show it moves all the time.
  BootNs last_moved() const { return std::min(makers_moved_, takers_moved_); }

  /// Since when a rank of a job has read and written nothing, whatever the others do: it waits, or
  /// computes. All do: the last update.
  BootNs rank_idle_since() const { return rank_idle_since_; }

  /// When the last update was; 0: never.
  BootNs looked_at() const { return looked_at_; }

 private:
  struct Seen {
    bool shows_calls = false;
    uint64_t io_calls = 0;
    std::optional<uint64_t> main_calls;
    uint64_t cpu_ticks = 0;
    BootNs idle_since = 0;
  };
  static bool has_moved(const TrackedProcess& process, const Seen& then, const Seen& now);

  void note_idle(const TrackedProcess& process, const Seen& then, Seen& now);

  std::map<ProcessKey, Seen> seen_;
  BootNs makers_moved_ = 0;  ///< the workers
  BootNs takers_moved_ = 0;  ///< the trainers
  BootNs rank_idle_since_ = 0;
  BootNs looked_at_ = 0;
};

}  // namespace dlprobe
