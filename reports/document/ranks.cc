// The ranks of distributed jobs: who waits, for whom, and a grid of all with their workers.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "lib/base/number_ranges.h"
#include "lib/base/units.h"
#include "lib/model/finding.h"
#include "lib/model/missing_ranks.h"
#include "lib/model/rank_words.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"
#include "reports/model/ranks_section.h"

namespace dlprobe::document {
namespace {

using Job = std::vector<RankState>;

constexpr size_t kMostGroups = 8;
constexpr size_t kMostRanges = 12;
constexpr size_t kMostWorkers = 64;
constexpr int64_t kMostCells = 16384;

JobRank id_of(const RankState& state) {
  return state.id.value_or(JobRank());
}

std::vector<Job> jobs_of(const report::Report& report) {
  std::map<std::string, Job> by_name;
  for (const report::Rank& rank : report::items_of(report.ranks)) {
    RankState state = rank_state_of(rank);
    by_name[id_of(state).job].push_back(std::move(state));
  }
  std::vector<Job> jobs;
  for (auto& [name, job] : by_name) {
    std::ranges::stable_sort(job, {}, [](const RankState& each) { return id_of(each).rank; });
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::string duration_text(BootNs time) {
  return format_duration(std::chrono::nanoseconds(time));
}

// Those that wait come before those they wait for, and these before what is gone.
std::vector<RankGroup> groups_of(const Job& job) {
  std::vector<size_t> all(job.size());
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = i;
  std::vector<RankGroup> groups = alike_ranks(job, all);
  std::ranges::stable_sort(groups, {}, [&](const RankGroup& group) {
    const RankDoing doing = job[group.front()].doing;
    if (doing == RankDoing::kMeets) return 0;
    return doing == RankDoing::kEnded ? 2 : 1;
  });
  return groups;
}

// "ranks 0-4, 6, 7 wait in all_reduce (main, train.py:41), for 40.0 s".
Spans group_spans(const Job& job, const RankGroup& group, std::string_view between = "") {
  const RankState& first = job[group.front()];
  const std::string doing = shown(words_of_doing(job, group).plain());
  const bool has_time = first.lasts > 0 && first.doing != RankDoing::kWorks;
  const bool is_over = first.doing == RankDoing::kEnded;
  const std::string time = has_time ? fmt::format(", {}{}{}", is_over ? "" : "for ",
                                                  duration_text(first.lasts), is_over ? " ago" : "")
                                    : "";
  const std::string cause = first.cause ? fmt::format(" ({})", info(first.cause->code).code) : "";
  return spans(strong(shown(name_ranks(job, group).plain())), between, doing + time + cause);
}

// All that wait do so at one place, and all others do the same: the others are waited for.
bool is_chain(const Job& job, const std::vector<RankGroup>& groups) {
  const auto waits = [&](const RankGroup& group) {
    return job[group.front()].doing == RankDoing::kMeets;
  };
  return groups.size() == 2 && waits(groups.front()) && !waits(groups.back());
}

// The last link of the chain: who is waited for, and what is wrong with it.
void add_late(List& list, const Job& job, const RankGroup& group,
              const std::vector<report::Finding>& findings) {
  constexpr std::string_view kRoot = "  <-- the root cause";
  const RankState& late = job[group.front()];
  const auto cause = std::ranges::find_if(findings, [&](const report::Finding& finding) {
    return late.cause && finding.code == info(late.cause->code).code;
  });
  const bool is_explained = cause != findings.end();
  const bool is_root = !is_explained && (late.sleeps() || late.doing == RankDoing::kEnded);
  list.add("for ", group_spans(job, group, ", which"), is_root ? kRoot : "");
  if (is_explained) list.add("because ", shown(cause->message), kRoot);
}

List list_of(const Job& job, const std::vector<report::Finding>& findings) {
  const std::vector<RankGroup> groups = groups_of(job);
  List list = {.kind = is_chain(job, groups) ? ListKind::kSteps : ListKind::kBullets};
  for (const RankGroup& group : groups) {
    if (list.kind == ListKind::kSteps && !list.items.empty()) {
      add_late(list, job, group, findings);
    } else if (list.items.size() == kMostGroups) {
      list.add(fmt::format("others are at {} more places", groups.size() - kMostGroups));
      break;
    } else {
      list.add(group_spans(job, group));
    }
  }
  return list;
}

// Those that were seen neither alive nor ended.
std::vector<NumberRange> not_seen(Job job) {
  for (RankState& each : job)
    if (each.doing == RankDoing::kEnded) each.doing = RankDoing::kWorks;
  return missing_ranks(job).numbers;
}

Span missing_span(const std::vector<NumberRange>& missing) {
  const bool is_one = count_in(missing) == 1;
  return {.text = (is_one ? "rank " : "ranks ") + ranges_text(missing, kMostRanges) +
                  (is_one ? " was not seen" : " were not seen"),
          .mark = Mark::kUnsure};
}

Grid::Tone tone_of(RankDoing doing) {
  switch (doing) {
    case RankDoing::kMeets:
      return Grid::Tone::kWaits;
    case RankDoing::kWorks:
      return Grid::Tone::kWorks;
    case RankDoing::kEnded:
      return Grid::Tone::kBad;
    default:
      return Grid::Tone::kLate;
  }
}

Grid::Tone tone_of(Activity activity) {
  switch (activity) {
    case Activity::kRunning:
    case Activity::kSpinning:
      return Grid::Tone::kWorks;
    case Activity::kStuck:
    case Activity::kStopped:
      return Grid::Tone::kBad;
    case Activity::kBlockedInKernel:
    case Activity::kSleeping:
      return Grid::Tone::kLate;
    default:
      return Grid::Tone::kIdle;
  }
}

Grid::Row row_of(const Job& job, size_t index) {
  const RankState& state = job[index];
  Grid::Row row = {
      .name = shown(name_ranks(job, {index}).plain()),
      .cell = {.word = std::string(to_string(state.doing)), .tone = tone_of(state.doing)}};
  if (state.meeting) row.cell.word = "in " + shown(state.meeting->operation);
  if (state.lasts > 0 && state.doing != RankDoing::kWorks)
    row.cell.time = duration_text(state.lasts);
  row.hint = row.name + shown(words_of_doing(job, {index}).plain());
  for (const RankWorker& worker : state.workers) {
    if (row.workers.size() == kMostWorkers) break;
    row.workers.push_back({.word = fmt::format("{} {}", worker.pid, to_string(worker.activity)),
                           .time = worker.lasts ? duration_text(*worker.lasts) : "",
                           .tone = tone_of(worker.activity)});
  }
  return row;
}

Grid grid_of(const Job& job) {
  Grid grid;
  const std::vector<NumberRange> missing = not_seen(job);
  auto gap = missing.begin();
  int64_t left = kMostCells;
  const auto add_missing_up_to = [&](int64_t rank) {
    for (; gap != missing.end() && gap->first < rank; ++gap) {
      for (int64_t each = gap->first; each <= gap->last && left > 0; ++each, --left) {
        grid.rows.push_back({.name = fmt::format("rank {}", each),
                             .cell = {.word = "not seen", .tone = Grid::Tone::kAbsent},
                             .hint = fmt::format("rank {} was not seen", each)});
      }
    }
  };
  for (size_t i = 0; i < job.size() && left > 0; ++i, --left) {
    add_missing_up_to(id_of(job[i]).rank);
    grid.rows.push_back(row_of(job, i));
  }
  add_missing_up_to(std::numeric_limits<int64_t>::max());
  return grid;
}

}  // namespace

Section ranks_of(const report::Report& report) {
  Section section = {.id = "ranks", .title = "Ranks"};
  const std::vector<Job> jobs = jobs_of(report);
  for (const Job& job : jobs) {
    if (job.size() < 2) continue;
    if (jobs.size() > 1) section.blocks.say("Job ", code(shown(id_of(job.front()).job)), ":");
    section.blocks.add(list_of(job, report.findings));
    if (const auto missing = not_seen(job); !missing.empty())
      section.blocks.say(missing_span(missing));
    section.blocks.add(grid_of(job), Readers::kHtml);
  }
  return section;
}

}  // namespace dlprobe::document
