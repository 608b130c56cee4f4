#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/task_facts.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// The cgroups that count the tasks of the process whose /proc directory is `process`, its own
/// first. Empty where their files are not mounted where dlprobe runs.
std::vector<TaskGroup> read_task_groups(const Machine& machine, const Directory& process);

/// What limits the tasks of the process whose /proc directory is `process`, now. Counts the user's
/// tasks, a walk through /proc, only where a limit holds it.
TaskFacts read_task_facts(const Machine& machine, const Directory& process);

}  // namespace dlprobe
