#pragma once

#include "reports/text_layout.h"

namespace dlprobe {

/// A row for each run: shm peak beside its forecast, memory, descriptors, speed.
void write_runs(TextPage& page, const Json& report);
/// A row for each run: what was found in it, memory, speed; for one run, how it ended.
void write_runs_by_finding(TextPage& page, const Json& report);
/// Where the shared memory went, for the last run that has it: the equation and the largest
/// holders.
void write_ledger(TextPage& page, const Json& report);
/// What each process does, or which were seen, by role; and how those that ended did.
void write_processes(TextPage& page, const Json& report);

}  // namespace dlprobe
