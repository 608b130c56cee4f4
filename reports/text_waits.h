#pragma once

#include "reports/text_layout.h"

namespace dlprobe {

/// Whether the report tells what its processes were doing at the last look.
bool has_activities(const Json& report);

/// From the trainer's main thread to the root cause, one step further in on each line; nothing
/// where there is no chain.
void write_chain(TextPage& page, const Json& report);

/// A row for each process: what it does, since when, where in the user's code, what it waits for;
/// processes that do the same are folded into one.
void write_activities(TextPage& page, const Json& report);

}  // namespace dlprobe
