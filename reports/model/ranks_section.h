#pragma once

#include "lib/model/rank_state.h"
#include "reports/model/objects/rank.h"
#include "reports/model/sections.h"

namespace dlprobe {

/// A rank as a report has it. One whose number is not told is rank 0 of no job.
report::Rank rank_entry_of(const RankState& state, Sentences& sentences);

/// The same the other way round. Times that are none are 0. The cause has no severity: only the
/// findings of its report say it.
RankState rank_state_of(const report::Rank& rank);

}  // namespace dlprobe
