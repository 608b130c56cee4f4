#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/units.h"
#include "lib/model/ids.h"
#include "lib/os/clock.h"
#include "lib/session/notices.h"

namespace dlprobe {

/// What is known of the steps of an examination before the first begins.
struct StepPlan {
  std::string name;                 ///< of the work, in front of each line: "gate"
  std::string noun = "run";         ///< one step is one of these
  size_t steps = 0;                 ///< 0: that depends on what they show
  bool is_most = false;             ///< there may be fewer
  std::optional<BootNs> each;       ///< how long one takes, as far as that was asked for
  std::optional<BootNs> until;      ///< all of it is over then
  BootNs log_every = 10 * kSecond;  ///< a log has a line no more often
};

/// Tells which step is at work, and how long all that is left will take: by the mean of the steps
/// so far, before the first has ended by the plan.
class StepProgress {
 public:
  /// `notices` and `clock` must outlive it.
  StepProgress(Notices& notices, const Clock& clock, StepPlan plan);
  ~StepProgress();
  StepProgress(const StepProgress&) = delete;
  StepProgress& operator=(const StepProgress&) = delete;

  /// The next step begins: "spawn, 4 workers".
  void begin(std::string_view what);

  /// "gate: run 3 of 9 (spawn, 4 workers), about 40 s left".
  std::string line() const;

 private:
  std::string time_left() const;

  Notices& notices_;
  const Clock& clock_;
  StepPlan plan_;
  BootNs began_;
  BootNs step_began_;
  BootNs logged_at_;
  size_t begun_ = 0;
  std::string what_;
};

}  // namespace dlprobe
