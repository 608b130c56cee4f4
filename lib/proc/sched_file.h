#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// The clock at which a thread was last accounted for a run, in nanoseconds: se.exec_start of
/// /proc/PID/task/TID/sched (kernel/sched/debug.c), the only part of that file that is read. Of a
/// blocked thread that is when it blocked. It is the clock of that thread's CPU alone
/// (rq_clock_task), which stands still while the host or interrupts have the CPU. 0: it has not run
/// since it was moved to another CPU. kMalformed if the line is missing.
Expected<uint64_t> parse_sched_file(std::string_view text);

}  // namespace dlprobe
