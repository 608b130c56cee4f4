#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/model/recording.h"
#include "lib/model/snapshot.h"
#include "reports/model/report.h"

namespace dlprobe {

/// MAJOR.MINOR of the document that `dlprobe stacks --json` writes.
inline constexpr std::string_view kStacksSchemaVersion = "1.0";

/// One look at the stacks of a process tree.
struct StacksLook {
  std::string version;  ///< of dlprobe
  HostFacts host;
  int64_t realtime_ns = 0;             ///< when the look was taken
  int32_t asked_pid = 0;               ///< as typed
  TreeSnapshot snapshot;               ///< what was seen
  std::vector<ProcessInfo> processes;  ///< who they are
  std::vector<Gap> gaps;               ///< what could not be seen
};

/// The stacks as a document. Nothing of a thread is left out
/// but the frames that `choice` does not want.
report::Stacks make_stacks(const StacksLook& look, FrameChoice choice);

}  // namespace dlprobe
