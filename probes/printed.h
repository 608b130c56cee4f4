#pragma once

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// Adds to the evidence of each finding the first line that the job printed and that bears it out.
void add_printed_lines(const Recording& recording, Verdict& verdict);

}  // namespace dlprobe
