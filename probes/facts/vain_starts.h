#pragma once

#include <optional>
#include <vector>

#include "lib/model/recording.h"

namespace dlprobe {

/// A pool whose initializer fails in each of its workers, and which starts new ones without end
/// (multiprocessing.Pool). Points into the recording.
struct VainStarts {
  const StartEvent* first = nullptr;  ///< the first failure
  ProcessKey trainer;                 ///< whose pool it is
  std::vector<ProcessKey> workers;    ///< who ended so, as far as they were seen to end
};

/// Nothing: no initializer fails again and again, or a worker of that pool is past it.
std::optional<VainStarts> vain_starts(const Run& run);

}  // namespace dlprobe
