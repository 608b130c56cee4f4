#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/finding.h"
#include "probes/gate/checks.h"

namespace dlprobe::probes::gate {

/// What limits the tasks of dlprobe's user and its cgroup.
TaskFacts tasks_of(const GateFacts& facts);

/// Threads, a process being one at least, that a PyTorch loader may have.
uint64_t tasks_needed(const LoaderPlan& plan);

/// What the gate finds by itself, beside the probes.
std::vector<Finding> find_all(const Source& source);

}  // namespace dlprobe::probes::gate
