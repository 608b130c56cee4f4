#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "reports/html_parts.h"
#include "reports/markup.h"
#include "reports/text_layout.h"

namespace dlprobe {
namespace {

constexpr double kWidth = 1000;
constexpr double kHeight = 100;
constexpr double kHeadroom = 1.08;  ///< above the highest value

using Series = std::vector<std::optional<double>>;

struct Chart {
  std::string title;
  std::string unit;
  std::vector<std::pair<std::string, Series>> series;
  bool stacked = false;
  std::optional<double> limit;
  std::string limit_name;
};

struct Table {
  Series times;
  Series runs;
  std::vector<std::pair<std::string, Series>> columns;

  const Series* find(std::string_view name) const {
    const auto found =
        std::ranges::find(columns, name, [](const auto& column) { return column.first; });
    return found == columns.end() ? nullptr : &found->second;
  }
};

Table table_of(const Json& timeline) {
  Table table;
  const Json& names = items_at(timeline, "columns");
  const Json& rows = items_at(timeline, "rows");
  for (size_t i = 0; i < names.size(); ++i) {
    Series series;
    series.reserve(rows.size());
    for (const Json& row : rows) {
      const bool is_number = row.is_array() && i < row.size() && row[i].is_number();
      series.push_back(is_number ? std::optional(row[i].get<double>()) : std::nullopt);
    }
    table.columns.emplace_back(value_with_unit(names[i], ""), std::move(series));
  }
  if (const Series* times = table.find("t")) table.times = *times;
  const Series* runs = table.find("run");
  table.runs = runs != nullptr ? *runs : Series(rows.size(), 0.0);
  return table;
}

bool is_empty(const Series& series) {
  return std::ranges::none_of(series, [](const auto& value) { return value.has_value(); });
}

bool is_zero(const Series& series) {
  return std::ranges::none_of(series, [](const auto& value) { return value.value_or(0) != 0; });
}

// What the others leave of the sum.
Series rest_of(const Series& sum, const std::vector<const Series*>& parts) {
  Series rest = sum;
  for (size_t i = 0; i < rest.size(); ++i) {
    for (const Series* part : parts) {
      if (rest[i] && (*part)[i])
        rest[i] = std::max(0.0, rest[i].value_or(0) - (*part)[i].value_or(0));
    }
  }
  return rest;
}

std::optional<double> size_of_shm(const Json& report) {
  const Json& runs = items_at(report, "runs");
  for (const Json& run : runs) {
    for (const Json& mount : items_at(run, "shm_mounts")) {
      if (const auto size = number_at(mount, "size_bytes"); size && *size > 0) return size;
    }
  }
  return std::nullopt;
}

void add_plain(std::vector<Chart>& charts, const Table& table, std::string title, std::string unit,
               std::initializer_list<std::pair<std::string_view, std::string_view>> columns) {
  Chart chart{.title = std::move(title), .unit = std::move(unit)};
  for (const auto& [column, name] : columns) {
    const Series* series = table.find(column);
    if (series != nullptr && !is_empty(*series)) chart.series.emplace_back(name, *series);
  }
  if (!chart.series.empty()) charts.push_back(std::move(chart));
}

std::vector<Chart> charts_of(const Json& report, const Table& table) {
  std::vector<Chart> charts;
  add_plain(charts, table, "Shared memory in use", "bytes", {{"shm_used", "used"}});
  if (!charts.empty()) {
    charts.back().limit = size_of_shm(report);
    charts.back().limit_name = "size of the mount";
  }
  const Series* sum = table.find("rss_sum");
  const Series* trainers = table.find("rss_trainer");
  const Series* workers = table.find("rss_workers");
  if (sum != nullptr && trainers != nullptr && workers != nullptr && !is_empty(*sum)) {
    Chart chart{.title = "Resident memory (RSS) by role", .unit = "bytes", .stacked = true};
    chart.series = {{"trainer", *trainers},
                    {"workers", *workers},
                    {"others", rest_of(*sum, {trainers, workers})}};
    charts.push_back(std::move(chart));
  } else {
    add_plain(charts, table, "Resident memory (RSS)", "bytes", {{"rss_sum", "all processes"}});
  }
  add_plain(charts, table, "Memory with shared pages counted once (PSS), and swap", "bytes",
            {{"pss_sum", "PSS"}, {"swap_sum", "swap"}});
  add_plain(charts, table, "Open file descriptors", "1", {{"fds_sum", "all processes"}});
  add_plain(charts, table, "Processes", "1", {{"processes", "alive"}});
  add_plain(charts, table, "Batches per second", "1/s", {{"batches_per_s", "batches"}});
  return charts;
}

/// Turns times and values into the coordinates of a drawing.
struct Frame {
  double from = 0;
  double to = 1;
  double top = 1;

  double x(double time) const { return kWidth * (time - from) / (to > from ? to - from : 1); }
  double y(double value) const { return kHeight - kHeight * value / (top > 0 ? top : 1); }
};

std::string point(const Frame& frame, double time, double value) {
  return fmt::format("{:.1f} {:.2f}", frame.x(time), frame.y(value));
}

// A line with a hole where a value is missing or another run begins.
std::string line_path(const Table& table, const Series& series, const Frame& frame) {
  std::string path;
  bool is_on = false;
  for (size_t i = 0; i < series.size(); ++i) {
    const bool is_new_run = i > 0 && table.runs[i] != table.runs[i - 1];
    if (!series[i] || !table.times[i]) {
      is_on = false;
      continue;
    }
    path += is_on && !is_new_run ? "L" : "M";
    path += point(frame, table.times[i].value_or(0), series[i].value_or(0));
    is_on = true;
  }
  return path;
}

// What lies between two sums.
std::string area_path(const Table& table, const Series& lower, const Series& upper,
                      const Frame& frame) {
  std::string path;
  size_t i = 0;
  while (i < upper.size()) {
    const auto known = [&](size_t at) { return lower[at] && upper[at] && table.times[at]; };
    if (!known(i)) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < upper.size() && known(end) && (end == i || table.runs[end] == table.runs[i]))
      ++end;
    for (size_t at = i; at < end; ++at)
      path +=
          (at == i ? "M" : "L") + point(frame, table.times[at].value_or(0), upper[at].value_or(0));
    for (size_t at = end; at-- > i;)
      path += "L" + point(frame, table.times[at].value_or(0), lower[at].value_or(0));
    path += "Z";
    i = end;
  }
  return path;
}

Series sum_of(const Series& a, const Series& b) {
  Series result(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] && b[i]) result[i] = a[i].value_or(0) + b[i].value_or(0);
  }
  return result;
}

double highest(const Series& series) {
  double most = 0;
  for (const auto& value : series)
    most = std::max(most, value.value_or(0));
  return most;
}

// Signals all, and of the others no two so near that they would hatch the drawing.
std::string event_lines(const Json& timeline, const Frame& frame) {
  constexpr double kNear = kWidth / 40;
  std::string out;
  double last = -kNear;
  for (const Json& event : items_at(timeline, "events")) {
    const auto at = number_at(event, "t_s");
    if (!at) continue;
    const double x = frame.x(*at);
    const bool is_bad = text_at(event, "text").contains("signal");
    if (!is_bad && x - last < kNear) continue;
    if (!is_bad) last = x;
    out += fmt::format(R"(<line class="event{0}" x1="{1:.1f}" x2="{1:.1f}" y1="0" y2="100"/>)",
                       is_bad ? " event-bad" : "", x);
  }
  return out;
}

std::string legend_of(const Chart& chart) {
  std::string out;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    out += fmt::format(R"(<span class="legend"><span class="key k{}"></span>{}</span>)", i,
                       escape_html(chart.series[i].first));
  }
  if (chart.limit) {
    out += fmt::format("<span class=\"legend fail\">{}: {}</span>", escape_html(chart.limit_name),
                       escape_html(value_with_unit(*chart.limit, chart.unit)));
  }
  return out;
}

// In words, for who does not see it.
std::string summary_of(const Chart& chart) {
  std::string text = chart.title;
  for (const auto& [name, series] : chart.series) {
    std::optional<double> last;
    for (const auto& value : series) {
      if (value) last = value;
    }
    text +=
        fmt::format("; {}: highest {}, last {}", name, value_with_unit(highest(series), chart.unit),
                    last ? value_with_unit(*last, chart.unit) : "not read");
  }
  return text;
}

std::string drawn(const Chart& chart, const Table& table, const Frame& frame) {
  if (!chart.stacked) {
    std::string out;
    for (size_t i = 0; i < chart.series.size(); ++i) {
      out += fmt::format(R"(<path class="l{}" d="{}"/>)", i,
                         line_path(table, chart.series[i].second, frame));
    }
    return out;
  }
  std::string out;
  Series below(table.times.size(), 0.0);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    Series above = sum_of(below, chart.series[i].second);
    out += fmt::format(R"(<path class="a{}" d="{}"/>)", i, area_path(table, below, above, frame));
    below = std::move(above);
  }
  return out;
}

double top_of(const Chart& chart) {
  double most = 0;
  if (chart.stacked) {
    Series sum(chart.series.front().second.size(), 0.0);
    for (const auto& [name, series] : chart.series)
      sum = sum_of(sum, series);
    most = highest(sum);
  } else {
    for (const auto& [name, series] : chart.series)
      most = std::max(most, highest(series));
  }
  // A limit far above would press the line to the ground.
  constexpr double kFar = 4;
  if (chart.limit && *chart.limit <= kFar * most) most = std::max(most, *chart.limit);
  most *= kHeadroom;
  return chart.unit == "1" ? std::ceil(most) : most;
}

std::string figure(const Chart& chart, size_t index, const Json& timeline, const Table& table,
                   Frame frame) {
  frame.top = top_of(chart);
  const bool is_count = chart.unit == "1";
  const std::string top =
      is_count ? fmt::format("{:.0f}", frame.top) : value_with_unit(frame.top, chart.unit);
  std::string out = fmt::format("<figure data-chart=\"{}\"><figcaption>{} {}</figcaption>\n", index,
                                escape_html(chart.title), legend_of(chart));
  out += fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" tabindex=\"0\" "
      "role=\"img\" aria-label=\"{}\">",
      escape_html(summary_of(chart)));
  out += drawn(chart, table, frame) + event_lines(timeline, frame);
  if (chart.limit && *chart.limit <= frame.top) {
    out += fmt::format(R"(<line class="limit" x1="0" x2="1000" y1="{0:.2f}" y2="{0:.2f}"/>)",
                       frame.y(*chart.limit));
  }
  out +=
      "<line class=\"cursor\" x1=\"0\" x2=\"0\" y1=\"0\" y2=\"100\" "
      "visibility=\"hidden\"/></svg>\n";
  out += fmt::format(
      "<div class=\"ends\"><span>{:.1f} s</span><output>top of the drawing: "
      "{}</output><span>{:.1f} "
      "s</span></div></figure>\n",
      frame.from, escape_html(top), frame.to);
  return out;
}

Json values_of(const Series& series) {
  Json values = Json::array();
  for (const auto& value : series)
    values.push_back(value ? Json(*value) : Json(nullptr));
  return values;
}

// For the script: numbers and our own names alone.
std::string data_for_script(const std::vector<Chart>& charts, const Table& table,
                            const Frame& frame) {
  Json data = {{"from", frame.from}, {"to", frame.to}, {"t", values_of(table.times)}};
  data["charts"] = Json::array();
  for (const Chart& chart : charts) {
    Json entry = {{"unit", chart.unit}, {"names", Json::array()}, {"values", Json::array()}};
    for (const auto& [name, series] : chart.series) {
      entry["names"].push_back(name);
      entry["values"].push_back(values_of(series));
    }
    data["charts"].push_back(std::move(entry));
  }
  std::string text;
  for (const char c : data.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return R"(<script type="application/json" id="timeline-data">)" + text + "</script>\n";
}

std::string events_table(const Json& timeline) {
  const Json& events = items_at(timeline, "events");
  if (events.empty()) return "";
  std::string out = fmt::format(
      "<details{}><summary>{} events</summary><div class=\"scroll\"><table><thead><tr><th "
      "scope=\"col\">Time</th><th scope=\"col\">What</th><th scope=\"col\">Process</th><th "
      "scope=\"col\">Details</th></tr></thead><tbody>\n",
      events.size() <= 12 ? " open" : "", integer_at(timeline, "events_total"));
  for (const Json& event : events) {
    const auto at = number_at(event, "t_s");
    const auto pid = number_at(event, "pid");
    out += fmt::format(
        "<tr><td class=\"number\">{}</td><td>{}</td><td>{} {}</td><td>{}</td></tr>\n",
        at ? fmt::format("{:.3f} s", *at) : "", html_at(event, "kind"), html_at(event, "role"),
        pid ? fmt::format("{:.0f}", *pid) : "", html_at(event, "text"));
  }
  return out + "</tbody></table></div></details>\n";
}

}  // namespace

std::string html_timeline(const Json& report) {
  const Json& timeline = object_at(report, "timeline");
  const Table table = table_of(timeline);
  const std::vector<Chart> charts = charts_of(report, table);
  const bool has_times =
      table.times.size() > 1 && !is_empty(table.times) &&
      std::ranges::all_of(table.times, [](const auto& t) { return t.has_value(); });
  std::string out;
  if (has_times && !charts.empty() && !is_zero(table.times)) {
    const Frame frame{.from = std::min(0.0, table.times.front().value_or(0)),
                      .to = table.times.back().value_or(0)};
    out +=
        "<p class=\"quiet\">Point at a chart, or use the arrow keys in it, to read the values at "
        "one "
        "moment in all of them. Upright lines are events, where they stand close only some of "
        "them; red ones are signals.</p>\n";
    for (size_t i = 0; i < charts.size(); ++i)
      out += figure(charts[i], i, timeline, table, frame);
    out += data_for_script(charts, table, frame);
  }
  return out + events_table(timeline);
}

}  // namespace dlprobe
