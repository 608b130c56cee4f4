#pragma once

#include <vector>

#include "lib/model/finding.h"

namespace dlprobe::probes::spawn {

/// DLP0401 to DLP0408, from what the interpreters of one run told of the processes that they start.
/// The root cause first.
std::vector<Finding> findings_of_starts(const Run& run);

/// DLP0409: a tree that dlprobe had to end because it grew without end; nothing if it did not.
std::optional<Finding> recursion_of(const Run& run);

}  // namespace dlprobe::probes::spawn
