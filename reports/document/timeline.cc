// What happened when, and where: values over time, events, the machine and the invocation.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

// One value of each row; empty where none has any.
Series series_of(const report::Timeline& timeline, auto member) {
  Series series;
  for (const report::TimelineRow& row : timeline.rows) {
    const std::optional<double> value = row.*member;
    series.push_back(value && std::isfinite(*value) ? value : std::nullopt);
  }
  const bool is_empty =
      std::ranges::none_of(series, [](const auto& each) { return each.has_value(); });
  return is_empty ? Series() : series;
}

std::optional<double> size_of_shm(const report::Report& report) {
  for (const report::Run& run : report.runs) {
    for (const report::ShmMount& mount : run.shm_mounts) {
      if (mount.size_bytes.value_or(0) > 0) return mount.size_bytes;
    }
  }
  return std::nullopt;
}

std::vector<Chart> charts_of(const report::Report& report) {
  using Row = report::TimelineRow;
  std::vector<Chart> charts;
  const auto add = [&](std::string title, std::string unit, const auto&... series) {
    Chart chart = {.title = std::move(title), .unit = std::move(unit)};
    const auto add_series = [&](const char* name, auto member) {
      if (Series values = series_of(report.timeline, member); !values.empty())
        chart.series.emplace_back(name, std::move(values));
    };
    (add_series(series.first, series.second), ...);
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  };
  add("Shared memory in use", "bytes", std::pair("used", &Row::shm_used));
  if (!charts.empty()) {
    charts.back().limit = size_of_shm(report);
    charts.back().limit_name = "size of the mount";
  }
  add("Resident memory (RSS)", "bytes", std::pair("all processes", &Row::rss_sum),
      std::pair("trainer", &Row::rss_trainer), std::pair("workers", &Row::rss_workers));
  add("Memory with shared pages counted once (PSS), and swap", "bytes",
      std::pair("PSS", &Row::pss_sum), std::pair("swap", &Row::swap_sum));
  add("Open file descriptors", "1", std::pair("all processes", &Row::fds_sum));
  add("Processes", "1", std::pair("alive", &Row::processes));
  add("Batches per second", "1/s", std::pair("batches", &Row::batches_per_s));
  return charts;
}

// Nothing to draw unless every row has its time, and time passes.
Charts charts_over_time(const report::Report& report) {
  Charts drawing;
  for (const report::TimelineRow& row : report.timeline.rows) {
    if (!std::isfinite(row.t)) return {};
    drawing.times_s.push_back(row.t);
    drawing.runs.push_back(static_cast<double>(row.run));
  }
  const bool is_moment = std::ranges::all_of(drawing.times_s, [](double t) { return t == 0; });
  if (drawing.times_s.size() < 2 || is_moment) return {};
  drawing.charts = charts_of(report);
  for (const report::TimelineEvent& event : report.timeline.events) {
    if (std::isfinite(event.t_s))
      drawing.events.push_back({.at_s = event.t_s, .is_bad = event.text.contains("signal")});
  }
  return drawing;
}

Card events_of(const report::Timeline& timeline) {
  constexpr size_t kMostOpen = 12;
  Table table = table_of({"Time", "What", "Process", "Details"}, 4, 1);
  table.columns.front().is_number = true;
  for (const report::TimelineEvent& event : timeline.events) {
    table.add(std::isfinite(event.t_s) ? fmt::format("{:.3f} s", event.t_s) : "", shown(event.kind),
              shown(event.role) + (event.pid ? fmt::format(" {}", *event.pid) : ""),
              shown(event.text));
  }
  Card card = {.title = spans(fmt::format("{} events", timeline.events_total)),
               .fold = timeline.events.size() <= kMostOpen ? Fold::kOpen : Fold::kClosed};
  card.blocks.add(std::move(table));
  return card;
}

// What stands in a section itself.
// NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
void add_facts(Table& table, const Shape& shape, const void* object, const std::string& prefix) {
  for (const FieldShape& field : shape.fields) {
    const void* value = field.value_in(object);
    if (value == nullptr || field.key == "boottime_ns") continue;
    const std::string key = prefix + field.key;
    if (field.is_among_others) {
      add_facts(table, *field.shape, value, key);
      continue;
    }
    if (field.shape->kind != Shape::Kind::kScalar) continue;
    const Scalar scalar = field.shape->get(value);
    if (std::holds_alternative<std::monostate>(scalar)) continue;
    std::string_view unit;
    if (key.ends_with("_bytes")) unit = "bytes";
    if (key.ends_with("_s")) unit = "s";
    table.add(key, value_text(scalar, unit));
  }
}

}  // namespace

Section timeline_of(const report::Report& report) {
  Section section = {.id = "time", .title = "What happened when", .readers = Readers::kHtml};
  Charts drawing = charts_over_time(report);
  if (!drawing.charts.empty()) section.blocks.add(std::move(drawing));
  if (!report.timeline.events.empty()) section.blocks.add(events_of(report.timeline));
  return section;
}

Section about_of(const AnyReport& any) {
  Section section = {.id = "about", .title = "Where and how", .readers = Readers::kHtml};
  Table table = table_of({"Fact", "Value"}, 2, 2);
  const std::vector<std::string>& argv = any.report.invocation.argv;
  if (!argv.empty()) table.add("command", code(joined(argv, " ")));
  const Shape& shape = any.cluster ? cluster_shape() : report_shape();
  const void* whole = any.cluster ? static_cast<const void*>(&*any.cluster) : &any.report;
  for (const char* part : {"invocation", "host", "context", "environment", "subject"}) {
    const auto field = std::ranges::find(shape.fields, part, &FieldShape::key);
    if (field != shape.fields.end())
      add_facts(table, *field->shape, field->value_in(whole), std::string(part) + ": ");
  }
  table.add("report", fmt::format("{}, schema version {}", shown(any.report.report_id),
                                  shown(any.report.schema_version)));
  Card card = {.title = spans("Machine, invocation, versions"), .fold = Fold::kClosed};
  card.blocks.add(std::move(table));
  section.blocks.add(std::move(card));
  return section;
}

}  // namespace dlprobe::document
