#include "lib/session/standstill.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// So many looks tell what there is to tell of a standstill.
constexpr int kMostQuietLooks = 30;
constexpr int kMostEarlyLooks = 3;

}  // namespace

Standstill::Standstill(const WatchedTree& tree, const ProgressLines& lines)
    : tree_(tree), lines_(lines), quiet_from_(tree.now()) {}

// Of three looks a second apart the last is well before a loader gives up.
BootNs Standstill::first_look_after(const StandstillPolicy& policy) const {
  if (policy.early_after == 0) return policy.quiet_after;
  const BootNs after = std::min(policy.early_after, policy.quiet_after);
  return std::min(after, well_before_giving_up());
}

BootNs Standstill::well_before_giving_up() const {
  const BootNs patience = tree_.guide.gives_up_after();
  return patience > 0 ? std::max(patience / 6, kSecond / 2) : std::numeric_limits<BootNs>::max();
}

// Others may move for as long as it waits for them.
BootNs Standstill::wait_of_rank() const {
  const auto& policy = tree_.target.standstill;
  if (!policy || policy->early_after == 0) return 0;
  return tree_.now() - std::max(tree_.collector.rank_idle_since(), quiet_from_);
}

BootNs Standstill::last_moved() const {
  const bool tells_itself = lines_.is_open() || tree_.target.ends_with_watch;
  return tells_itself ? lines_.last_came() : tree_.collector.last_motion();
}

BootNs Standstill::duration() const {
  return tree_.now() - std::max(last_moved(), quiet_from_);
}

OwnWords Standstill::text() const {
  const BootNs lasts = in_vain_since_ ? tree_.now() - *in_vain_since_ : duration();
  return format_duration(std::chrono::seconds(lasts / kSecond));
}

bool Standstill::is_quiet() const {
  const auto& policy = tree_.target.standstill;
  return policy &&
         (duration() > first_look_after(*policy) || wait_of_rank() > well_before_giving_up());
}

bool Standstill::wants_look() {
  const auto& policy = tree_.target.standstill;
  if (!policy || !is_quiet() || tree_.root_ended() || tree_.now() < rest_until_) return false;
  const BootNs left = policy->quiet_after - duration();
  if (looks_ < (left >= 0 ? kMostEarlyLooks : kMostQuietLooks)) return true;
  looks_ = 0;
  if (left >= 0) {
    rest_until_ = tree_.now() + std::min(std::max(duration(), wait_of_rank()), left);
  } else {
    quiet_from_ = tree_.now();
    has_looked_ = false;
  }
  return false;
}

bool Standstill::is_found_stuck(BootNs snapshot_at) {
  if (!tree_.target.standstill || tree_.root_ended()) return false;
  const StandstillPolicy& policy = *tree_.target.standstill;
  tell_if_over();
  forget_if_over(policy);
  if (is_told_ || duration() < policy.judge_after || judged_ == snapshot_at) return false;
  if (!lines_.is_open() && tree_.collector.looked_for_motion_at() <= snapshot_at) return false;
  judged_ = snapshot_at;
  is_told_ = tree_.guide.is_stuck();
  if (is_told_) told_since_ = std::max(last_moved(), quiet_from_);
  return is_told_;
}

// What ends moves for a last time.
void Standstill::tell_if_over() {
  constexpr BootNs kLongerThanAnEnd = 2 * kSecond;
  if (!told_since_ || last_moved() <= *told_since_) return;
  if (!moves_since_) moves_since_ = tree_.now();
  if (tree_.now() - *moves_since_ < kLongerThanAnEnd) return;
  tree_.guide.tell_moves_again(*moves_since_ - *told_since_);
  told_since_.reset();
  moves_since_.reset();
  is_told_ = false;
}

// Asked once a second, for it looks at all that was recorded.
bool Standstill::is_found_in_vain() {
  const auto& policy = tree_.target.standstill;
  if (!policy || in_vain_since_ || tree_.root_ended() || tree_.now() < ask_again_at_) return false;
  ask_again_at_ = tree_.now() + kSecond;
  const auto since = tree_.guide.in_vain_since();
  if (since && tree_.now() - *since >= policy->judge_after) in_vain_since_ = since;
  return in_vain_since_.has_value();
}

// What was seen of a standstill that is over proves nothing.
void Standstill::forget_if_over(const StandstillPolicy& policy) {
  if (!has_looked_ || duration() >= first_look_after(policy) ||
      wait_of_rank() >= well_before_giving_up())
    return;
  looks_ = 0;
  has_looked_ = false;
  rest_until_ = 0;
  is_told_ = false;
  if (tree_.target.snapshots != SnapshotTimes::kWhenQuiet) return;
  tree_.tools.sink.add(Event{.at = tree_.now(),
                             .kind = std::string(kMovesAgain),
                             .text = "the loader moves again",
                             .process = tree_.target.root});
}

}  // namespace dlprobe
