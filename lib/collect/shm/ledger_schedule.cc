#include "lib/collect/shm/ledger_schedule.h"

#include <algorithm>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

/// What nobody removed by then, stays: managers clean up within 2 s of a death.
constexpr BootNs kSettled = 4 * kSecond;
constexpr BootNs kLedgerShare = 100;  ///< one part in so many of the time
constexpr BootNs kLedgerRest = kSecond;
constexpr BootNs kLedgerRestHalfFull = 200 * kMillisecond;

}  // namespace

void LedgerSchedule::note_use_changed(uint64_t device, BootNs at) {
  last_changes_[device] = at;
  use_changed_ = true;
  changed_at_ = at;
}

std::optional<LedgerKeeper::Scope> LedgerSchedule::due(BootNs now, double fullest,
                                                       bool tree_ended) {
  if (!first_taken_ || (tree_ended && !last_taken_)) {
    last_taken_ = tree_ended;
    first_taken_ = true;
    return LedgerKeeper::Scope::kAll;
  }
  if (tree_ended) return std::nullopt;
  const bool settled = fullest > 0 && has_any_settled(now);
  const bool changed = segments_changed_ || use_changed_;
  if (!settled && !(changed && has_rested(now, fullest))) return std::nullopt;
  const bool full = fullest >= 0.5 && now >= next_full_;
  return full ? LedgerKeeper::Scope::kAll : LedgerKeeper::Scope::kTree;
}

bool LedgerSchedule::is_due_for_use(BootNs now, double fullest) const {
  return use_changed_ && has_rested(now, fullest);
}

bool LedgerSchedule::has_any_settled(BootNs now) const {
  return std::ranges::any_of(last_changes_, [&](const auto& change) {
    const BootNs settled_at = change.second + kSettled;
    return last_ < settled_at && now >= settled_at;
  });
}

bool LedgerSchedule::has_rested(BootNs now, double fullest) const {
  if (fullest >= 0.8 && !seen_running_full_) return true;
  const BootNs rest = fullest >= 0.5 ? kLedgerRestHalfFull : kLedgerRest;
  return now - last_ >= std::max(rest, kLedgerShare * cost_);
}

void LedgerSchedule::begin(double fullest) {
  seen_running_full_ = fullest >= 0.8 || (seen_running_full_ && fullest >= 0.6);
}

void LedgerSchedule::end(LedgerKeeper::Scope scope, BootNs began, BootNs cost) {
  last_ = began;
  if (scope == LedgerKeeper::Scope::kAll) {
    next_full_ = began + std::max(kLedgerRest, kLedgerShare * cost);
  } else {
    cost_ = cost;
  }
  segments_changed_ = false;
  use_changed_ = false;
}

}  // namespace dlprobe
