#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/message.h"
#include "lib/model/task_facts.h"

namespace dlprobe {

/// Whose processes and threads a limit counts.
enum class TaskScope { kUser, kGroup, kMachine };

/// A limit of the number of processes and threads, and what is taken of it.
struct TaskLimit {
  TaskScope scope = TaskScope::kUser;
  OwnWords name;
  uint64_t limit = 0;
  uint64_t taken = 0;
  Message source;
  std::string folder;  ///< of a group
  uint64_t left() const { return limit - std::min(limit, taken); }
};

/// Those that hold a process; the one that leaves the least comes first.
std::vector<TaskLimit> task_limits(const TaskFacts& facts);

}  // namespace dlprobe
