#pragma once

#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe::probes::spawn {

/// What the text of the run's program shows of what would break: possible and no more, as nothing
/// was run. Empty where no text was read (StartEventKind::kForeseen).
std::vector<Finding> findings_of_text(const Run& run);

}  // namespace dlprobe::probes::spawn
