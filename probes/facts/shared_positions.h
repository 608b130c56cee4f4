#pragma once

#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// Files that several processes read by one position, by the looks at files and the snapshots of a
/// run: DLP0205. `machine` is HostFacts::machine.
std::vector<Finding> find_shared_positions(const Run& run, std::string_view machine);

}  // namespace dlprobe
