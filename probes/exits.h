#pragma once

#include <span>

#include "lib/model/finding.h"

namespace dlprobe {

/// Why processes of the tree ended (DLP0501-0503, 0509-0512), from their exit statuses, the signals
/// that were sent, the kernel's log and the counters of OOM kills. Deaths that a finding of `known`
/// (what the other probes found) explains, by naming the process, are left out.
///
/// Silent on what belongs to normal work: exit code 0, workers that their own job ended, children
/// that are no part of the loader, Ctrl-C, what dlprobe ended itself.
Verdict examine_exits(const Recording& recording, std::span<const Finding> known);

}  // namespace dlprobe
