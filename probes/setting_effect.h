#pragma once

#include <string>

#include "lib/model/recording.h"

namespace dlprobe {

/// Why what was to be set for `attempt`, one of Recording::attempts, did not all take effect, as a
/// sentence; empty: it did. What the kernel sees to (limits, /dev/shm, the environment) does,
/// unless the command line itself sets it anew.
std::string why_not_set(const Run& attempt);

}  // namespace dlprobe
