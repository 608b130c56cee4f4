#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/model/finding.h"
#include "probes/gate/checks.h"

namespace dlprobe::probes::gate {

/// A limit of the number of processes and threads, and what is taken of it.
struct TaskLimit {
  OwnWords name;
  uint64_t limit = 0;
  uint64_t taken = 0;
  OwnWords source;
  uint64_t left() const { return limit - std::min(limit, taken); }
};

/// Those that hold dlprobe's user and its cgroup; the one that leaves the least comes first.
std::vector<TaskLimit> task_limits(const GateFacts& facts);

/// Threads, a process being one at least, that a PyTorch loader may have.
uint64_t tasks_needed(const LoaderPlan& plan);

/// What the gate finds by itself, beside the probes.
std::vector<Finding> find_all(const Source& source);

}  // namespace dlprobe::probes::gate
