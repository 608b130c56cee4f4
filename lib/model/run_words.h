#pragma once

#include "lib/base/message.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// The first and the last time that the run's records name.
struct RunSpan {
  BootNs begin = 0;
  BootNs end = 0;
};
RunSpan span_of(const Run& run);

/// Whether the process that was asked for, of a job that ran already, ended before the watch was
/// over.
bool ended_during_watch(const Run& run);

/// "killed by signal 7 (SIGBUS)", "exited with code 1".
Message describe_exit(const Observed<int32_t>& wait_status);

}  // namespace dlprobe
