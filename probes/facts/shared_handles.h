#pragma once

#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// What several processes have since a fork and read from, so that one takes what the other is
/// about to read, by the looks at files and the snapshots of a run: DLP0205.
/// `machine` is HostFacts::machine.
std::vector<Finding> find_shared_handles(const Run& run, std::string_view machine);
/// Whether a file whose position a trainer and several workers share was read meanwhile, by whom is
/// not told yet: a longer watch may tell.
bool may_share_handles(const Run& run, std::string_view machine);
/// Whether an exception was raised in one of several workers of one process by code that has a file
/// or a connection which was opened before they were forked: StartEvent::shared_file.
bool has_shared_handle(const Run& run, const StartEvent& event);
/// Its part about TCP connections; the rest are files that have one position.
std::vector<Finding> find_shared_connections(const Run& run);

}  // namespace dlprobe
