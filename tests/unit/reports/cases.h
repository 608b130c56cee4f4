#pragma once

#include <span>
#include <string_view>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe::testing {

/// An examination and what a probe said of it.
struct ReportCase {
  std::string_view name;  ///< of the golden file
  Recording recording;
  Verdict verdict;
};

/// The verdict with what the probe of the recording's name declares.
Verdict told(const ReportCase& each);

/// Workers under both strategies, all well.
ReportCase healthy_case();
/// A worker killed by SIGBUS on a full mount in a container, with a consequence.
ReportCase exhausted_case();
/// A job in which nothing could be read; truncated and thinned.
ReportCase incomplete_case();
/// Names that try to act on the terminal, and numbers that are none.
ReportCase hostile_case();
/// A tree that hangs: the trainer waits for a worker, that one for a lock that was copied locked by
/// fork; three other workers do the same, one thread had to be stopped for a look.
ReportCase hang_case();
/// A wait-for graph and stacks whose names try to act on the terminal.
ReportCase hostile_hang_case();
/// Not even a run.
ReportCase empty_case();

std::span<const ReportCase> all_cases();

}  // namespace dlprobe::testing
