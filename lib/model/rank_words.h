#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/base/message.h"
#include "lib/model/rank_state.h"

namespace dlprobe {

/// Ranks that do the same at the same place for the same cause; the one that has done so for the
/// longest comes first. Indices into the ranks that were grouped.
using RankGroup = std::vector<size_t>;

/// The groups of `ranks`, indices into `states`: the largest first, of equal ones in their order.
std::vector<RankGroup> alike_ranks(std::span<const RankState> states,
                                   const std::vector<size_t>& ranks);

/// "rank 1 (4711)", "rank 5 (n2, pid 4711)", "ranks 0, 2-7"; the processes where their ranks are
/// not known. Of at least one.
Message name_ranks(std::span<const RankState> states, const std::vector<size_t>& ranks);

/// " sleeps (upload, train.py:17)", " wait in all_reduce (main, train.py:41)": what all of a group
/// do, to stand behind their name.
Message words_of_doing(std::span<const RankState> states, const RankGroup& group);

}  // namespace dlprobe
