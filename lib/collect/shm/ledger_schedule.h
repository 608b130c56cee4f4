#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "lib/collect/shm/ledger.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// When to account for the segments of a tree.
///
/// A full look at the start, once a mount is half full and at the end of the tree; the tree alone
/// while segments change, and once they have not for a while. Never more than 1 % of the time,
/// beside the first and the last and the one when a mount runs full.
class LedgerSchedule {
 public:
  /// The use of a mount, or its segments, have changed.
  void note_use_changed(uint64_t device, BootNs at);
  void note_segments_changed() { segments_changed_ = true; }

  /// Which look is due now, if any. `fullest`: the largest share in use of any mount, 0 to 1.
  std::optional<LedgerKeeper::Scope> due(BootNs now, double fullest, bool tree_ended);
  /// Between two samples: whether the use has changed and a look is due for it.
  bool is_due_for_use(BootNs now, double fullest) const;

  /// A look begins with so much in use; it was begun at `began`, and took `cost`.
  void begin(double fullest);
  void end(LedgerKeeper::Scope scope, BootNs began, BootNs cost);

  /// Whether the newest look was at the whole machine, a moment ago, and nothing changed since it
  /// began.
  bool is_fresh(BootNs now) const;

  BootNs changed_at() const { return changed_at_; }

 private:
  bool has_rested(BootNs now, double fullest) const;
  bool has_any_settled(BootNs now) const;

  bool use_changed_ = false;       ///< since the last look
  bool segments_changed_ = false;  ///< since the last look
  bool first_taken_ = false;
  bool last_taken_ = false;
  bool was_full_ = false;           ///< the last look was at the whole machine
  bool seen_running_full_ = false;  ///< one was taken above 80 %, and never below 60 %
  BootNs changed_at_ = 0;
  std::map<uint64_t, BootNs> last_changes_;  ///< of each mount: others may never leave one alone
  BootNs last_ = 0;
  BootNs cost_ = 0;  ///< of the last look at the tree alone
  BootNs next_full_ = 0;
};

}  // namespace dlprobe
