#pragma once

#include <span>
#include <vector>

#include "lib/base/number_ranges.h"
#include "lib/model/rank_state.h"

namespace dlprobe {

/// Ranks of a job that were not seen alive.
struct MissingRanks {
  std::vector<NumberRange> numbers;
  bool must_be_here = false;  ///< all ranks of the job are where dlprobe has looked
  bool may_be_here = false;   ///< no launcher tells which processes of a machine are ranks
};

/// Those that are not in `job`, the ranks of one job that were seen, by the size that it has. None
/// where a launcher does not tell, or where what they tell does not fit together.
MissingRanks missing_ranks(std::span<const RankState> job);

}  // namespace dlprobe
