// What happened when, and where: values over time, events, the machine and the invocation.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

Card events_of(const report::Timeline& timeline) {
  constexpr size_t kMostOpen = 12;
  Table table = table_of({"Time", "What", "Process", "Details"}, 4, 1);
  table.columns.front().is_number = true;
  for (const report::TimelineEvent& event : timeline.events) {
    table.add(std::isfinite(event.t_s) ? fmt::format("{:.3f} s", event.t_s) : "", shown(event.kind),
              shown(event.role) + (event.pid ? fmt::format(" {}", *event.pid) : ""),
              shown(event.text));
  }
  Card card = {.title = spans(counted(timeline.events_total, "event")),
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
  Charts drawing = charts_of(report);
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
