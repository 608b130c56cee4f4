#pragma once

#include <cstddef>
#include <vector>

#include "lib/model/setting.h"

namespace dlprobe {

/// One more run of the command, and for whom.
struct PlannedAttempt {
  Attempt attempt;
  std::vector<size_t> findings;  ///< those whose remedies set that: indices into Verdict::findings
};

}  // namespace dlprobe
