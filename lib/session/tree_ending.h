#pragma once

#include <optional>
#include <string>

#include "lib/session/watched_tree.h"

namespace dlprobe {

/// Ends a watched tree that dlprobe started: asks, insists, and kills what is left.
class TreeEnding {
 public:
  /// `tree` must outlive it.
  explicit TreeEnding(WatchedTree& tree) : tree_(tree) {}

  bool has_begun() const { return began_.has_value(); }
  /// Why dlprobe ended the tree of its own accord, as a sentence; or empty.
  const OwnWords& because() const { return because_; }

  /// Asks the root to end (SIGTERM). `because` ("made no progress for 2 min"): empty where it was
  /// to end then.
  void ask(const OwnWords& because);
  /// Kills the root where it was asked and did not end in time.
  void insist();
  /// Kills all of it. No process is left that could start another one.
  void kill_at_once(const OwnWords& because);

  /// The root has ended: whether to wait for those that outlive it. Helpers may for a while; of a
  /// tree that dlprobe ended nothing may be left.
  bool waits_for_helpers();

 private:
  void begin(const OwnWords& because);
  void reap_the_killed();
  void kill_what_is_left();

  WatchedTree& tree_;
  std::optional<BootNs> began_;
  OwnWords because_;
  std::optional<BootNs> linger_until_;
  int kill_rounds_ = 0;  ///< of what was left
};

}  // namespace dlprobe
