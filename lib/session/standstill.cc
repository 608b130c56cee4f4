#include "lib/session/standstill.h"

#include <algorithm>
#include <chrono>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// So many looks tell what there is to tell of a standstill.
constexpr int kMostQuietLooks = 30;

}  // namespace

Standstill::Standstill(const WatchedTree& tree, const ProgressLines& lines)
    : tree_(tree), lines_(lines), quiet_from_(tree.now()) {}

BootNs Standstill::last_moved() const {
  const bool tells_itself = lines_.is_open() || tree_.target.ends_with_watch;
  return tells_itself ? lines_.last_came() : tree_.collector.last_motion();
}

BootNs Standstill::duration() const {
  return tree_.now() - std::max(last_moved(), quiet_from_);
}

OwnWords Standstill::text() const {
  return format_duration(std::chrono::seconds(duration() / kSecond));
}

bool Standstill::is_quiet() const {
  return tree_.target.standstill && duration() > tree_.target.standstill->quiet_after;
}

bool Standstill::wants_look() {
  if (!is_quiet() || tree_.root_ended()) return false;
  if (looks_ < kMostQuietLooks) return true;
  looks_ = 0;
  quiet_from_ = tree_.now();
  return false;
}

bool Standstill::is_found_stuck(BootNs snapshot_at) {
  if (!tree_.target.standstill || tree_.root_ended()) return false;
  const StandstillPolicy& policy = *tree_.target.standstill;
  forget_if_over(policy);
  if (is_told_ || duration() < policy.judge_after || judged_ == snapshot_at) return false;
  if (!lines_.is_open() && tree_.collector.looked_for_motion_at() <= snapshot_at) return false;
  judged_ = snapshot_at;
  is_told_ = tree_.guide.is_stuck();
  return is_told_;
}

// What was seen of a standstill that is over proves nothing.
void Standstill::forget_if_over(const StandstillPolicy& policy) {
  if (looks_ == 0 || duration() >= policy.quiet_after) return;
  looks_ = 0;
  is_told_ = false;
  if (tree_.target.snapshots != SnapshotTimes::kWhenQuiet) return;
  tree_.tools.sink.add(Event{.at = tree_.now(),
                             .kind = std::string(kMovesAgain),
                             .text = "the loader moves again",
                             .process = tree_.target.root});
}

}  // namespace dlprobe
