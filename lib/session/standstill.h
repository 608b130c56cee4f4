#pragma once

#include <string>

#include "lib/session/progress_lines.h"
#include "lib/session/watched_tree.h"

namespace dlprobe {

/// For how long the loader of a watched tree has not moved, and whether it is stuck.
class Standstill {
 public:
  /// Both must outlive it.
  Standstill(const WatchedTree& tree, const ProgressLines& lines);

  /// When the loader last moved.
  BootNs last_moved() const;
  /// "2 min": since then.
  OwnWords text() const;

  /// Whether it lasts long enough for a look.
  bool is_quiet() const;
  /// Whether such a look is worth its time. After half a minute of looks there is a rest as long as
  /// the standstill was: a training loop may well do something else for long.
  bool wants_look();
  void count_look() {
    ++looks_;
    has_looked_ = true;
  }

  /// Judges the snapshot of the time `snapshot_at`, each once, when nothing is known to have moved
  /// since. Whether the loader is found to be stuck, and was not before.
  bool is_found_stuck(BootNs snapshot_at);

  /// Whether what moves is found to get nowhere, for as long as a standstill is judged after; once.
  bool is_found_in_vain();

 private:
  BootNs first_look_after(const StandstillPolicy& policy) const;
  BootNs well_before_giving_up() const;
  BootNs wait_of_rank() const;
  BootNs duration() const;
  void tell_if_over();
  void forget_if_over(const StandstillPolicy& policy);

  const WatchedTree& tree_;
  const ProgressLines& lines_;
  BootNs quiet_from_;  ///< a standstill counts from then on
  BootNs judged_ = 0;  ///< the snapshot of that time
  BootNs rest_until_ = 0;
  int looks_ = 0;                        ///< snapshots in a row
  bool has_looked_ = false;              ///< in this standstill
  bool is_told_ = false;                 ///< that it is stuck
  std::optional<BootNs> told_since_;     ///< since when what was told then has stood
  std::optional<BootNs> moves_since_;    ///< again, since that was told
  std::optional<BootNs> in_vain_since_;  ///< found to be
  BootNs ask_again_at_ = 0;              ///< whether it is
};

}  // namespace dlprobe
