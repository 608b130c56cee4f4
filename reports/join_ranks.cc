#include "reports/join_ranks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>

#include "lib/base/host_list.h"
#include "lib/foreign/python_code.h"
#include "lib/model/missing_ranks.h"
#include "lib/model/rank_words.h"
#include "reports/model/ranks_section.h"
#include "reports/redact/redact.h"

namespace dlprobe {
namespace {

using Job = std::vector<RankState>;

// A job of no name, or whose name was redacted, may be another one on each node, and so may one
// that meets at 127.0.0.1.
bool may_be_on_several(const JobRank& id) {
  return !id.job.empty() && id.job != kCut && !id.meets_here();
}

JobRank id_of(const RankState& state) {
  return state.id.value_or(JobRank());
}

auto order_of(const RankState& state) {
  const JobRank id = id_of(state);
  return std::tuple(id.job, may_be_on_several(id) ? "" : state.node, id.rank, state.node,
                    state.process);
}

bool is_one_process(const RankState& a, const RankState& b) {
  return a.node == b.node && a.process == b.process && id_of(a).job == id_of(b).job;
}

// By job and rank; a process that several reports of its node show is there once.
std::vector<Job> jobs_of(std::vector<RankState> ranks) {
  std::ranges::stable_sort(ranks, {}, order_of);
  const auto again = std::ranges::unique(ranks, is_one_process);
  ranks.erase(again.begin(), again.end());
  std::vector<Job> jobs;
  for (RankState& rank : ranks) {
    const bool is_new = jobs.empty() || id_of(jobs.back().front()).job != id_of(rank).job ||
                        (!may_be_on_several(id_of(rank)) && jobs.back().front().node != rank.node);
    if (is_new) jobs.emplace_back();
    jobs.back().push_back(std::move(rank));
  }
  return jobs;
}

Message name_of(const RankState& rank) {
  return say("{} (pid {})", as_host(rank.node), rank.process.pid);
}

// Why the ranks cannot be of one job; nothing where they fit together.
std::optional<Message> misfit_of(const Job& job) {
  const RankState* before = nullptr;
  const std::optional<int32_t> size = id_of(job.front()).world_size;
  for (const RankState& each : job) {
    const JobRank id = id_of(each);
    if (id.world_size != size) {
      return say("{} says that it has {} ranks, {} says {}", name_of(job.front()),
                 size ? own(*size) : "no", name_of(each),
                 id.world_size ? own(*id.world_size) : "none");
    }
    if (id.rank < 0 || (size && id.rank >= *size))
      return say("{} says that it is rank {} of {}", name_of(each), id.rank, size.value_or(0));
    // One that has ended may have been started again.
    if (each.doing == RankDoing::kEnded) continue;
    if (before != nullptr && id_of(*before).rank == id.rank)
      return say("{} and {} both say that they are rank {}", name_of(*before), name_of(each),
                 id.rank);
    before = &each;
  }
  return std::nullopt;
}

// What is not known for want of the ranks that no report shows: where nobody waits for ranks, as in
// the gates of some of them, nothing.
std::optional<Gap> gap_of_missing(const Job& job) {
  const bool any_waits = std::ranges::any_of(
      job, [](const RankState& each) { return each.doing == RankDoing::kMeets; });
  if (!any_waits) return std::nullopt;
  constexpr size_t kMostRanges = 12;
  std::vector<int64_t> ended;
  for (const RankState& each : job)
    if (each.doing == RankDoing::kEnded) ended.push_back(id_of(each).rank);
  const MissingRanks missing = missing_ranks(job);
  const bool all_ended = count_in(missing.numbers) <= count_in(ranges_of(std::move(ended)));
  if (missing.must_be_here || all_ended) return std::nullopt;
  const bool is_one = count_in(missing.numbers) == 1;
  return Gap{.what = (is_one ? "rank " : "ranks ") + ranges_text(missing.numbers, kMostRanges) +
                     " of job " + as_text(id_of(job.front()).job),
             .why = is_one ? "no report shows it" : "no report shows them",
             .effect = is_one ? "dlprobe cannot tell whether it is behind or has ended"
                              : "dlprobe cannot tell whether one of them is behind or has ended",
             .remedy = "a report of every node of the job"};
}

std::vector<std::string> nodes_of(const Job& job) {
  std::vector<std::string> nodes;
  for (const RankState& each : job)
    if (nodes.empty() || nodes.back() != each.node) nodes.push_back(each.node);
  std::ranges::sort(nodes);
  const auto again = std::ranges::unique(nodes);
  nodes.erase(again.begin(), again.end());
  return nodes;
}

// What the report of its node says of the rank that it is about.
void prove(Finding& finding, const RankState& rank) {
  const Message source = "report of " + as_host(rank.node);
  std::vector<Evidence> proof;
  if (rank.looks.motion == RankMotion::kStill) {
    proof.push_back(
        {.name = "stood_still_for",
         .value = std::chrono::duration<double>(std::chrono::nanoseconds(rank.lasts)).count(),
         .unit = "s",
         .source = source});
  }
  if (rank.at && !is_of_a_library(rank.at->file)) {
    const StackFrame& at = *rank.at;
    proof.push_back({.name = "your_code",
                     .value = say("{} ({}:{})", as_name(at.function), as_path(at.file), at.line),
                     .source = source});
    finding.places.push_back(
        {.file = at.file, .line = at.line, .what = "waits in " + as_name(at.function)});
  }
  finding.evidence.insert(finding.evidence.begin(), proof.begin(), proof.end());
  if (finding.discriminator.empty()) finding.discriminator = rank.other.library;
}

// As the report of one node would have it.
report::Finding entry_of(const RankFinding& found, const Job& job, Sentences& sentences) {
  Recording recording;
  Verdict verdict;
  verdict.findings = {found.finding};
  prove(verdict.findings.front(), job[found.ranks.front()]);
  Run& run = recording.runs.emplace_back();
  Job about;
  for (const size_t each : found.ranks) {
    about.push_back(job[each]);
    ProcessInfo& process = run.processes.emplace_back();
    process.key = job[each].process;
    process.role = job[each].role;
  }
  const ReportSource source = {.recording = recording,
                               .verdict = verdict,
                               .time = TimeOfDay(recording.header),
                               .severity_sources = {},
                               .suppressed = {},
                               .sentences = sentences};
  report::Finding entry = findings_section(source).front();
  const std::vector<std::string> nodes = nodes_of(about);
  entry.nodes = fold_hosts(nodes);
  entry.occurrences = nodes.size();
  return entry;
}

}  // namespace

std::vector<RankState> ranks_of_node(const report::Report& report, const std::string& node) {
  std::vector<RankState> ranks;
  for (const report::Rank& rank : report::items_of(report.ranks)) {
    RankState& state = ranks.emplace_back(rank_state_of(rank));
    state.node = node;
    const auto cause = std::ranges::find_if(report.findings, [&](const report::Finding& finding) {
      return finding.code == rank.explained_by;
    });
    if (state.cause && cause != report.findings.end()) {
      state.cause->severity = cause->severity;
    } else {
      state.cause.reset();
    }
  }
  return ranks;
}

bool is_about_waiting_ranks(const report::Finding& finding) {
  constexpr std::array kCodes = {FindingCode::kRankBehind,  FindingCode::kCollectiveMismatch,
                                 FindingCode::kUnevenData,  FindingCode::kRankDead,
                                 FindingCode::kSlowestRank, FindingCode::kConsumerStuck};
  return std::ranges::any_of(kCodes,
                             [&](FindingCode code) { return finding.code == info(code).code; });
}

bool waits_for_other_nodes(const report::Finding& finding) {
  return finding.code == info(FindingCode::kRankBehind).code &&
         std::ranges::count(finding.evidence, "missing_ranks", &report::Evidence::name) > 0;
}

JoinedRanks join_ranks(std::vector<RankState> ranks, const JudgeRanks& judge,
                       Sentences& sentences) {
  JoinedRanks result;
  for (const Job& job : jobs_of(std::move(ranks))) {
    for (const RankState& each : job)
      result.ranks.push_back(rank_entry_of(each, sentences));
    const std::string name = id_of(job.front()).job;
    if (!may_be_on_several(id_of(job.front()))) continue;
    if (auto misfit = misfit_of(job)) {
      result.gaps.push_back({.what = "the ranks of job " + as_text(name) + " together",
                             .why = std::move(*misfit),
                             .effect = "dlprobe judges each node separately",
                             .remedy = "merge only reports of one run of the job"});
      continue;
    }
    if (auto gap = gap_of_missing(job)) result.gaps.push_back(std::move(*gap));
    if (!judge || nodes_of(job).size() < 2) continue;
    result.joined.insert(name);
    for (const RankFinding& found : judge(job)) {
      result.findings.push_back(entry_of(found, job, sentences));
      result.judged.insert(name);
    }
  }
  std::ranges::stable_sort(result.findings, [](const auto& a, const auto& b) {
    return std::pair(a.severity, a.confidence) > std::pair(b.severity, b.confidence);
  });
  return result;
}

}  // namespace dlprobe
