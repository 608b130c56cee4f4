#include "reports/model/ranks_section.h"

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/units.h"
#include "reports/model/stack_section.h"

namespace dlprobe {
namespace {

constexpr double kLongest = 1e9;  // seconds

double seconds_of(BootNs time) {
  return static_cast<double>(time) / static_cast<double>(kSecond);
}

BootNs time_of(double seconds) {
  if (!std::isfinite(seconds)) return 0;
  return static_cast<BootNs>(std::clamp(seconds, 0.0, kLongest) * static_cast<double>(kSecond));
}

int32_t number_of(int64_t number) {
  using Limits = std::numeric_limits<int32_t>;
  return static_cast<int32_t>(std::clamp<int64_t>(number, Limits::min(), Limits::max()));
}

StackFrame frame_of_entry(const report::Frame& frame) {
  constexpr uint64_t kMostLines = std::numeric_limits<int32_t>::max();
  return {.python = frame.kind == report::FrameKind::kPython,
          .function = frame.function,
          .file = frame.file,
          .line = static_cast<int32_t>(std::min(frame.line.value_or(0), kMostLines))};
}

void put_end(report::Rank& entry, const RankState& state) {
  if (!state.wait_status) return;
  if (WIFSIGNALED(*state.wait_status)) {
    entry.signal = WTERMSIG(*state.wait_status);
  } else if (WIFEXITED(*state.wait_status)) {
    entry.exit_code = WEXITSTATUS(*state.wait_status);
  }
}

std::optional<int32_t> wait_status_of(const report::Rank& rank) {
  constexpr int64_t kSignals = 0x7f;
  constexpr int64_t kCodes = 0xff;
  if (rank.signal) return W_EXITCODE(0, static_cast<int32_t>(*rank.signal & kSignals));
  if (rank.exit_code) return W_EXITCODE(static_cast<int32_t>(*rank.exit_code & kCodes), 0);
  return std::nullopt;
}

report::FlightRecord record_entry_of(const FlightRecord& record) {
  report::FlightRecord entry{.age_s = seconds_of(record.age_ns)};
  for (const FlightGroup& group : record.groups) {
    entry.groups.push_back({.name = group.name,
                            .enqueued = group.enqueued,
                            .completed = group.completed,
                            .operation = report::if_any(group.operation),
                            .tensors = report::if_any(group.tensors),
                            .at = group.at.transform(frame_of),
                            .gives_up_in_s = group.gives_up_in_ns.transform(seconds_of)});
  }
  return entry;
}

FlightRecord record_of(const report::FlightRecord& entry) {
  FlightRecord record{.age_ns = time_of(entry.age_s)};
  for (const report::FlightGroup& group : entry.groups) {
    record.groups.push_back({.name = group.name,
                             .enqueued = group.enqueued,
                             .completed = group.completed,
                             .operation = group.operation.value_or(""),
                             .tensors = group.tensors.value_or(""),
                             .at = group.at.transform(frame_of_entry),
                             .gives_up_in_ns = group.gives_up_in_s.transform(time_of)});
  }
  return record;
}

}  // namespace

report::Rank rank_entry_of(const RankState& state, Sentences& sentences) {
  const JobRank id = state.id.value_or(JobRank());
  report::Rank entry = {.job = id.job,
                        .rank = id.rank,
                        .world_size = id.world_size,
                        .local_world_size = id.local_world_size,
                        .node = report::if_any(state.node),
                        .pid = state.process.pid,
                        .start_ticks = state.process.start_ticks,
                        .doing = state.doing,
                        .lasts_s = seconds_of(state.lasts),
                        .waits_for = report::if_any(sentences.text_of(state.other.words)),
                        .at = state.at.transform(frame_of),
                        .library = report::if_any(state.other.library),
                        .motion = state.looks.motion,
                        .overdue = state.is_overdue,
                        .flight_record = state.flight.transform(record_entry_of)};
  if (state.meeting) {
    entry.meeting = state.meeting->kind;
    entry.operation = state.meeting->operation;
    entry.stands = state.meeting->stands;
  }
  if (const RankLooks& looks = state.looks; looks.all > 0)
    entry.looks = {.all = looks.all, .waiting = looks.waiting, .in_loader = looks.in_loader};
  if (state.other.has_no_end) entry.has_no_end = true;
  put_end(entry, state);
  if (state.cause) entry.explained_by.emplace(info(state.cause->code).code);
  for (const RankWorker& worker : state.workers) {
    entry.workers.push_back({.pid = worker.pid,
                             .activity = worker.activity,
                             .lasts_s = worker.lasts.transform(seconds_of)});
  }
  return entry;
}

RankState rank_state_of(const report::Rank& rank) {
  RankState state{.id = JobRank{.job = rank.job,
                                .rank = rank.rank,
                                .world_size = rank.world_size,
                                .local_world_size = rank.local_world_size},
                  .node = rank.node.value_or(""),
                  .process = {.pid = number_of(rank.pid), .start_ticks = rank.start_ticks},
                  .doing = rank.doing,
                  // Names that it has stand among those of its report.
                  .other = {.words = own(rank.waits_for.value_or("")),
                            .library = rank.library.value_or(""),
                            .has_no_end = rank.has_no_end.value_or(false)},
                  .at = rank.at.transform(frame_of_entry),
                  .lasts = time_of(rank.lasts_s),
                  .looks = {.motion = rank.motion},
                  .is_overdue = rank.overdue,
                  .wait_status = wait_status_of(rank),
                  .flight = rank.flight_record.transform(record_of)};
  if (rank.looks) {
    state.looks.all = rank.looks->all;
    state.looks.waiting = rank.looks->waiting;
    state.looks.in_loader = rank.looks->in_loader;
  }
  if (state.doing == RankDoing::kMeets) {
    state.meeting = Meeting{.kind = rank.meeting.value_or(MeetingKind::kCollective),
                            .operation = rank.operation.value_or(""),
                            .stands = rank.stands};
  }
  if (const FindingInfo* cause = find_finding(rank.explained_by.value_or(report::CodeText())))
    state.cause = RankCause{.code = cause->id, .severity = Severity::kInfo};
  for (const report::RankWorker& worker : rank.workers) {
    state.workers.push_back({.pid = number_of(worker.pid),
                             .activity = worker.activity,
                             .lasts = worker.lasts_s.transform(time_of)});
  }
  return state;
}

std::vector<report::Rank> ranks_section(const ReportSource& source) {
  constexpr size_t kMostRanks = 4096;
  std::vector<report::Rank> entries;
  for (const RankState& state : source.verdict.ranks) {
    if (entries.size() == kMostRanks) break;
    entries.push_back(rank_entry_of(state, source.sentences));
  }
  return entries;
}

}  // namespace dlprobe
