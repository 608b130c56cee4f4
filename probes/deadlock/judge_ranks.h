#pragma once

#include <span>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/rank_state.h"

namespace dlprobe::probes::deadlock {

/// Whether ranks of a job wait for others, and all of them stand where they wait.
bool all_waiting_stand(std::span<const RankState> job);

/// The ranks that others of their job wait for in a collective operation: DLP0702 to DLP0706.
/// `job`: all ranks of one job that were seen, on this machine or on several nodes. Evidence has no
/// moment: clocks of nodes differ.
std::vector<RankFinding> judge_ranks(std::span<const RankState> job);

}  // namespace dlprobe::probes::deadlock
