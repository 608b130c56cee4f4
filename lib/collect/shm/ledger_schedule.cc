#include "lib/collect/shm/ledger_schedule.h"

#include <algorithm>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

/// What nobody removed by then, stays: managers clean up within 2 s of a death.
constexpr BootNs kSettled = 4 * kSecond;
/// One part in so many of the time; less while there is room.
constexpr BootNs kLedgerShare = 250;
constexpr BootNs kLedgerShareHalfFull = 100;
constexpr BootNs kLedgerRest = kSecond;
constexpr BootNs kFresh = kSecond / 2;
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
  const bool is_half_full = fullest >= 0.5;
  const BootNs rest = is_half_full ? kLedgerRestHalfFull : kLedgerRest;
  const BootNs share = is_half_full ? kLedgerShareHalfFull : kLedgerShare;
  return now - last_ >= std::max(rest, share * cost_);
}

bool LedgerSchedule::is_fresh(BootNs now) const {
  const bool changed = use_changed_ || segments_changed_ || changed_at_ > last_;
  return was_full_ && !changed && now - last_ < kFresh;
}

void LedgerSchedule::begin(double fullest) {
  seen_running_full_ = fullest >= 0.8 || (seen_running_full_ && fullest >= 0.6);
}

void LedgerSchedule::end(LedgerKeeper::Scope scope, BootNs began, BootNs cost) {
  last_ = began;
  was_full_ = scope == LedgerKeeper::Scope::kAll;
  if (scope == LedgerKeeper::Scope::kAll) {
    next_full_ = began + std::max(kLedgerRest, kLedgerShareHalfFull * cost);
  } else {
    cost_ = cost;
  }
  segments_changed_ = false;
  use_changed_ = false;
}

}  // namespace dlprobe
