#pragma once

#include "lib/model/task_facts.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// What limits the tasks of the process whose /proc directory is `process`, now. Counts the user's
/// tasks, a walk through /proc, only where a limit holds it.
TaskFacts read_task_facts(const Machine& machine, const Directory& process);

}  // namespace dlprobe
