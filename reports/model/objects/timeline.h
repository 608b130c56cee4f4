#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/process.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// What was seen at one moment. Stands in the file as a list, in the order of its fields.
struct TimelineRow {
  static constexpr bool kIsRow = true;
  uint64_t run = 0;
  double t = 0;
  std::optional<uint64_t> shm_used;
  std::optional<uint64_t> rss_sum;
  std::optional<uint64_t> fds_sum;
  uint64_t processes = 0;
  std::optional<uint64_t> rss_trainer;
  std::optional<uint64_t> rss_workers;
  std::optional<uint64_t> pss_sum;
  std::optional<uint64_t> swap_sum;
  std::optional<double> batches_per_s;
};
constexpr void list_fields(auto&& field, Of<TimelineRow> /*of*/) {
  field("run", &TimelineRow::run);
  field("t", &TimelineRow::t, "since `zero`", Unit::kSeconds);
  field("shm_used", &TimelineRow::shm_used, "", Unit::kBytes);
  field("rss_sum", &TimelineRow::rss_sum, "", Unit::kBytes);
  field("fds_sum", &TimelineRow::fds_sum);
  field("processes", &TimelineRow::processes);
  field("rss_trainer", &TimelineRow::rss_trainer, "", Unit::kBytes);
  field("rss_workers", &TimelineRow::rss_workers, "", Unit::kBytes);
  field("pss_sum", &TimelineRow::pss_sum, "", Unit::kBytes);
  field("swap_sum", &TimelineRow::swap_sum, "", Unit::kBytes);
  field("batches_per_s", &TimelineRow::batches_per_s);
}

/// Something that happened at one moment.
struct TimelineEvent {
  uint64_t run = 0;
  double t_s = 0;
  std::string kind;
  std::optional<int64_t> pid;
  std::optional<Role> role;
  std::string text;
};
constexpr void list_fields(auto&& field, Of<TimelineEvent> /*of*/) {
  field("run", &TimelineEvent::run);
  field("t_s", &TimelineEvent::t_s);
  field("kind", &TimelineEvent::kind, Holds::kWord);
  field("pid", &TimelineEvent::pid);
  field("role", &TimelineEvent::role);
  field("text", &TimelineEvent::text, Holds::kSentence);
}

/// Resident memory of one worker at one moment. Stands in the file as a list.
struct WorkerRssRow {
  static constexpr bool kIsRow = true;
  double t = 0;
  uint64_t rss = 0;
};
constexpr void list_fields(auto&& field, Of<WorkerRssRow> /*of*/) {
  field("t", &WorkerRssRow::t, "since `zero`", Unit::kSeconds);
  field("rss", &WorkerRssRow::rss, "", Unit::kBytes);
}

/// A worker that has more memory than the others, or all of those others.
struct WorkerSeries {
  uint64_t run = 0;
  std::vector<int64_t> pids;
  std::vector<WorkerRssRow> rows;
};
constexpr void list_fields(auto&& field, Of<WorkerSeries> /*of*/) {
  field("run", &WorkerSeries::run);
  field("pids", &WorkerSeries::pids, "of several, `rows` is their mean");
  field("rows", &WorkerSeries::rows);
}

/// Columns over time, and events.
struct Timeline {
  Constant<"boottime"> clock;
  Moment zero;
  TimelineColumns columns;
  TimelineUnits units;
  uint64_t downsampled_from_rows = 0;
  std::vector<TimelineRow> rows;
  std::optional<std::vector<WorkerSeries>> workers;
  uint64_t events_total = 0;
  std::vector<TimelineEvent> events;
};
constexpr void list_fields(auto&& field, Of<Timeline> /*of*/) {
  field("clock", &Timeline::clock);
  field("zero", &Timeline::zero);
  field("columns", &Timeline::columns);
  field("units", &Timeline::units);
  field("downsampled_from_rows", &Timeline::downsampled_from_rows);
  field("rows", &Timeline::rows);
  field("workers", &Timeline::workers,
        "where a few have more memory than the others: those few, then all others as one");
  field("events_total", &Timeline::events_total);
  field("events", &Timeline::events);
}

}  // namespace dlprobe::report
