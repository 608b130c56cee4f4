#pragma once

#include "lib/model/finding.h"
#include "lib/model/recording_view.h"

namespace dlprobe {

/// Adds to the evidence of each finding the first line that the job printed and that bears it out.
void add_printed_lines(const RecordingView& recording, Verdict& verdict);

}  // namespace dlprobe
