#pragma once

#include "lib/base/message.h"
#include "lib/model/recording_view.h"

namespace dlprobe::probes::deadlock {

/// Whether the newest run shows something that stands still, or may do so, for too short a time to
/// blame it, and nothing worse: a longer watch would tell.
bool may_be_stuck(const RecordingView& recording);

/// "trainer 11 waits for input on its standard input (ask, train.py:8)", of the newest run; empty:
/// none of its processes does.
Message what_is_asked(const RecordingView& recording);

}  // namespace dlprobe::probes::deadlock
