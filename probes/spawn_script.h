#pragma once

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// What the program's text says of each run's command (Run::script): findings that are possible and
/// no more, as nothing was run, and gaps for what could not be read. They are added to the verdict;
/// nothing is where no text was read.
void find_in_script(const Recording& recording, Verdict& verdict);

}  // namespace dlprobe
