#pragma once

#include <string>

#include "lib/model/recording.h"

namespace dlprobe {

/// The first and the last time that the run's records name.
struct RunSpan {
  BootNs begin = 0;
  BootNs end = 0;
};
RunSpan span_of(const Run& run);

/// "killed by signal 7 (SIGBUS)", "exited with code 1".
std::string describe_exit(const Observed<int32_t>& wait_status);

}  // namespace dlprobe
