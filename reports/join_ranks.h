#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/model/finding.h"
#include "reports/model/report.h"
#include "reports/model/sections.h"

namespace dlprobe {

/// What ranks of one job say of one another; the rules are a probe's.
using JudgeRanks = std::function<std::vector<RankFinding>(std::span<const RankState>)>;

/// The ranks of a report, as those of that node; causes have the severity that their findings have
/// in this report, and are none where it has no such finding.
std::vector<RankState> ranks_of_node(const report::Report& report, const std::string& node);

/// Whether the finding says what ranks wait for as one node saw it: the look at all nodes knows
/// better.
bool is_about_waiting_ranks(const report::Finding& finding);
/// Whether it says no more than that a rank of another node is waited for.
bool waits_for_other_nodes(const report::Finding& finding);

/// The ranks of all nodes, joined by job and rank.
struct JoinedRanks {
  std::vector<report::Finding> findings;  ///< the worst first, each with its nodes
  std::vector<report::Rank> ranks;        ///< by job and rank
  std::set<std::string> joined;           ///< jobs that are on several nodes, and fit together
  std::set<std::string> judged;           ///< those of them about which there is a finding
  std::vector<Gap> gaps;
};

/// Judges each job whose ranks are on several nodes as one look at all of them would. A job that
/// does not fit together (two processes claim a rank, sizes differ) is left to its nodes, with a
/// gap.
JoinedRanks join_ranks(std::vector<RankState> ranks, const JudgeRanks& judge, Sentences& sentences);

}  // namespace dlprobe
