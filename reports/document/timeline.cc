// What happened when, and where: values over time, events, the machine and the invocation.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

/// The columns of the timeline.
class Columns {
 public:
  explicit Columns(const Json& timeline) : rows_(items_at(timeline, "rows")) {
    for (const Json& name : items_at(timeline, "columns"))
      names_.push_back(value_with_unit(name, ""));
  }

  /// Empty where there is no value in any row.
  Series find(std::string_view name) const {
    const auto found = std::ranges::find(names_, name);
    const auto column = static_cast<size_t>(found - names_.begin());
    Series series;
    bool is_empty = true;
    for (const Json& row : rows_) {
      const bool is_number = row.is_array() && column < row.size() && row[column].is_number();
      series.push_back(is_number ? std::optional(row[column].get<double>()) : std::nullopt);
      is_empty = is_empty && !is_number;
    }
    return is_empty || found == names_.end() ? Series() : series;
  }

 private:
  const Json& rows_;
  std::vector<std::string> names_;
};

std::optional<double> size_of_shm(const Json& report) {
  for (const Json& run : items_at(report, "runs")) {
    for (const Json& mount : items_at(run, "shm_mounts")) {
      if (const auto size = number_at(mount, "size_bytes"); size && *size > 0) return size;
    }
  }
  return std::nullopt;
}

std::vector<Chart> charts_of(const Json& report, const Columns& columns) {
  std::vector<Chart> charts;
  const auto add = [&](std::string title, std::string unit,
                       std::initializer_list<std::pair<const char*, const char*>> series) {
    Chart chart = {.title = std::move(title), .unit = std::move(unit), .series = {}};
    for (const auto& [column, name] : series) {
      if (Series values = columns.find(column); !values.empty())
        chart.series.emplace_back(name, std::move(values));
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  };
  add("Shared memory in use", "bytes", {{"shm_used", "used"}});
  if (!charts.empty()) {
    charts.back().limit = size_of_shm(report);
    charts.back().limit_name = "size of the mount";
  }
  add("Resident memory (RSS)", "bytes",
      {{"rss_sum", "all processes"}, {"rss_trainer", "trainer"}, {"rss_workers", "workers"}});
  add("Memory with shared pages counted once (PSS), and swap", "bytes",
      {{"pss_sum", "PSS"}, {"swap_sum", "swap"}});
  add("Open file descriptors", "1", {{"fds_sum", "all processes"}});
  add("Processes", "1", {{"processes", "alive"}});
  add("Batches per second", "1/s", {{"batches_per_s", "batches"}});
  return charts;
}

// Nothing to draw unless every row has its time, and time passes.
Charts charts_over_time(const Json& report) {
  const Json& timeline = object_at(report, "timeline");
  const Columns columns(timeline);
  Charts drawing;
  for (const auto& time : columns.find("t")) {
    if (!time) return {};
    drawing.times_s.push_back(*time);
  }
  const bool is_moment = std::ranges::all_of(drawing.times_s, [](double t) { return t == 0; });
  if (drawing.times_s.size() < 2 || is_moment) return {};
  for (const auto& run : columns.find("run"))
    drawing.runs.push_back(run.value_or(0));
  drawing.runs.resize(drawing.times_s.size());
  drawing.charts = charts_of(report, columns);
  for (const Json& event : items_at(timeline, "events")) {
    if (const auto at = number_at(event, "t_s"))
      drawing.events.push_back({.at_s = *at, .is_bad = text_at(event, "text").contains("signal")});
  }
  return drawing;
}

Card events_of(const Json& timeline) {
  constexpr size_t kMostOpen = 12;
  const Json& events = items_at(timeline, "events");
  Table table = table_of({"Time", "What", "Process", "Details"}, 4, 1);
  table.columns.front().is_number = true;
  for (const Json& event : events) {
    const auto at = number_at(event, "t_s");
    const auto pid = number_at(event, "pid");
    table.add(at ? fmt::format("{:.3f} s", *at) : "", text_at(event, "kind"),
              text_at(event, "role") + (pid ? fmt::format(" {:.0f}", *pid) : ""),
              text_at(event, "text"));
  }
  Card card = {.title = spans(fmt::format("{} events", integer_at(timeline, "events_total"))),
               .fold = events.size() <= kMostOpen ? Fold::kOpen : Fold::kClosed};
  card.blocks.add(std::move(table));
  return card;
}

void add_facts(Table& table, const Json& object, const std::string& prefix) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() || value.is_array() || key.ends_with("_boottime_ns")) continue;
    std::string_view unit;
    if (key.ends_with("_bytes")) unit = "bytes";
    if (key.ends_with("_s")) unit = "s";
    table.add(prefix + value_with_unit(key, ""), value_with_unit(value, unit));
  }
}

}  // namespace

Section timeline_of(const Json& report) {
  Section section = {.id = "time", .title = "What happened when", .readers = Readers::kHtml};
  const Json& timeline = object_at(report, "timeline");
  Charts drawing = charts_over_time(report);
  if (!drawing.charts.empty()) section.blocks.add(std::move(drawing));
  if (!items_at(timeline, "events").empty()) section.blocks.add(events_of(timeline));
  return section;
}

Section about_of(const Json& report) {
  Section section = {.id = "about", .title = "Where and how", .readers = Readers::kHtml};
  Table table = table_of({"Fact", "Value"}, 2, 2);
  const Json& argv = items_at(object_at(report, "invocation"), "argv");
  if (!argv.empty()) table.add("command", code(joined(argv, " ")));
  for (const char* part : {"invocation", "host", "context", "environment", "subject"})
    add_facts(table, object_at(report, part), std::string(part) + ": ");
  table.add("report", fmt::format("{}, schema version {}", text_at(report, "report_id"),
                                  text_at(report, "schema_version")));
  Card card = {.title = spans("Machine, invocation, versions"), .fold = Fold::kClosed};
  card.blocks.add(std::move(table));
  section.blocks.add(std::move(card));
  return section;
}

}  // namespace dlprobe::document
