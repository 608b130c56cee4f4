#pragma once

#include <algorithm>

#include "lib/model/ids.h"

namespace dlprobe {

/// Time that may be spent on something: a share of the time that goes by, saved up to a limit.
class TimeBudget {
 public:
  /// `share` of a core; `most` is what can be saved up, of which half is there at the start.
  TimeBudget(double share, BootNs most) : share_(share), most_(most), left_(most / 2) {}

  void refill(BootNs now) {
    if (filled_at_ != 0)
      left_ = std::min(most_,
                       left_ + static_cast<BootNs>(share_ * static_cast<double>(now - filled_at_)));
    filled_at_ = now;
  }
  void spend(BootNs time) { left_ -= time; }
  bool has(BootNs time) const { return left_ > 0 && left_ >= time; }

 private:
  double share_;
  BootNs most_;
  BootNs left_;
  BootNs filled_at_ = 0;
};

}  // namespace dlprobe
