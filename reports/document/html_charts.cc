#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "reports/document/html_nodes.h"
#include "reports/document/text_layout.h"
#include "reports/model/json.h"

namespace dlprobe::document {
namespace {

using pugi::xml_node;

constexpr double kWidth = 1000;
constexpr double kHeight = 100;

/// The marks beside a drawing, at even values.
struct Axis {
  double step = 1;
  double top = 1;
  double unit = 1;        ///< bytes of the unit of the texts
  std::string unit_name;  ///< with a blank before it
};

/// Turns times and values into the coordinates of a drawing.
struct Scale {
  double from = 0;
  double to = 1;
  double top = 1;

  double x(double time) const { return kWidth * (time - from) / (to > from ? to - from : 1); }
  double y(double value) const { return kHeight - kHeight * value / (top > 0 ? top : 1); }
};

std::string point(const Scale& scale, double time, double value) {
  return fmt::format("{:.1f} {:.2f}", scale.x(time), scale.y(value));
}

// A line with a hole where a value is missing or another run begins.
std::string line_path(const Charts& all, const Series& series, const Scale& scale) {
  std::string path;
  bool is_on = false;
  for (size_t i = 0; i < series.size(); ++i) {
    const bool is_new_run = i > 0 && all.runs[i] != all.runs[i - 1];
    if (!series[i]) {
      is_on = false;
      continue;
    }
    const bool goes_on = is_on && !is_new_run;
    path += goes_on ? "L" : "M";
    path += point(scale, all.times_s[i], series[i].value_or(0));
    // One alone is a dot.
    if (!goes_on) path += "h0";
    is_on = true;
  }
  return path;
}

// A limit far above would press the line to the ground.
bool is_limit_drawn(const Chart& chart) {
  constexpr double kFar = 4;
  return chart.limit && *chart.limit <= kFar * highest(chart);
}

Axis axis_of(const Chart& chart) {
  constexpr std::array kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  constexpr double kMarks = 4;
  double most = highest(chart);
  if (is_limit_drawn(chart)) most = std::max(most, chart.limit.value_or(0));
  if (!(most > 0)) return {};
  Axis axis;
  if (chart.unit == "bytes") {
    size_t unit = 0;
    for (; unit + 1 < kUnits.size() && most >= 1024 * axis.unit; ++unit)
      axis.unit *= 1024;
    axis.unit_name = kUnits.at(unit);
  } else if (chart.unit != "1") {
    axis.unit_name = " " + chart.unit;
  }
  const double least = most / axis.unit / kMarks;
  const double power = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double factor : {5, 2, 1}) {
    if (factor * power >= least) step = factor * power;
  }
  if (chart.unit == "1") step = std::max(step, 1.0);
  axis.step = step * axis.unit;
  axis.top = axis.step * std::ceil(most / axis.step);
  return axis;
}

// A drawing is stretched to the page, texts are not: they stand beside it.
void add_marks(xml_node beside, xml_node svg, const Axis& axis, const Scale& scale) {
  const auto marks = static_cast<int>(std::lround(axis.top / axis.step));
  for (int mark = 0; mark <= marks; ++mark) {
    const double value = mark * axis.step;
    const double y = scale.y(value);
    add_text_element(beside, "text",
                     value > 0 ? fmt::format("{:g}{}", value / axis.unit, axis.unit_name) : "0",
                     {{"x", "100%"}, {"y", fmt::format("{:.2f}%", y)}});
    add_element(svg, "path", {{"class", "mark"}, {"d", fmt::format("M0 {:.2f}H1000", y)}});
  }
}

// Signals all, and of the others no two so near that they would hatch the drawing.
void add_event_lines(xml_node svg, const Charts& all, const Scale& scale) {
  constexpr double kNear = kWidth / 40;
  double last = -kNear;
  for (const Charts::Event& event : all.events) {
    const double x = scale.x(event.at_s);
    if (!event.is_bad && x - last < kNear) continue;
    if (!event.is_bad) last = x;
    add_element(svg, "path",
                {{"class", event.is_bad ? "event event-bad" : "event"},
                 {"d", fmt::format("M{:.1f} 0V100", x)}});
  }
}

// "; not sampled after 11.0 s": where a line has holes. Empty where it has none.
std::string holes_text(const Charts& all, const Series& series) {
  constexpr double kMuch = 0.1;
  const auto count = static_cast<size_t>(
      std::ranges::count_if(series, [](const auto& value) { return value.has_value(); }));
  double last = all.times_s.front();
  for (size_t i = 0; i < series.size(); ++i) {
    if (series[i]) last = all.times_s[i];
  }
  const double span = all.times_s.back() - all.times_s.front();
  if (all.times_s.back() - last > kMuch * span)
    return fmt::format(" (not sampled after {:.1f} s)", last);
  if (static_cast<double>(count) < (1 - kMuch) * static_cast<double>(series.size()))
    return fmt::format(" (sampled at {} of {} moments)", count, series.size());
  return "";
}

void add_key(xml_node caption, const std::string& key, const std::string& text) {
  const xml_node legend = add_element(caption, "span", {{"class", "legend"}});
  add_element(legend, "span", {{"class", "key " + key}});
  add_text(legend, text);
}

std::string limit_text(const Chart& chart) {
  std::string text = chart.limit_name + ": " + number_text(chart.limit, chart.unit);
  if (!is_limit_drawn(chart) && chart.limit.value_or(0) > 0) {
    text += fmt::format(" (far above: at most {:.2g} % were used)",
                        100 * highest(chart) / chart.limit.value_or(1));
  }
  return text;
}

bool is_near_limit(const Chart& chart) {
  return chart.limit && highest(chart) >= kNearLimit * *chart.limit;
}

void add_legend(xml_node caption, const Charts& all, const Chart& chart) {
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const auto& [name, series] = chart.series[i];
    add_key(caption, fmt::format("k{}", i), name + holes_text(all, series));
  }
  if (chart.trend) add_key(caption, "key-trend", chart.trend->name);
  if (chart.limit) {
    add_text_element(caption, "span", limit_text(chart),
                     {{"class", is_near_limit(chart) ? "legend fail" : "legend quiet"}});
  }
  if (!chart.note.empty()) {
    add_text_element(caption, "span", chart.note,
                     {{"class", chart.is_note_bad ? "legend fail" : "legend quiet"}});
  }
  const bool is_first = &chart == &all.charts.front();
  if (all.failure && is_first) add_key(caption, "key-failure", all.failure->text);
}

// In words, for who does not see it.
std::string summary_of(const Chart& chart) {
  std::string text = chart.title;
  for (const auto& [name, series] : chart.series) {
    std::optional<double> last;
    for (const auto& value : series) {
      if (value) last = value;
    }
    text += fmt::format("; {}: highest {}, last {}", name, number_text(highest(series), chart.unit),
                        last ? number_text(last, chart.unit) : "not read");
  }
  return text;
}

void add_lines(xml_node svg, const Charts& all, const Chart& chart, const Scale& scale) {
  const auto add = [&](const std::string& css, const std::string& way) {
    add_element(svg, "path", {{"class", css}, {"d", way}});
  };
  for (size_t i = 0; i < chart.series.size(); ++i)
    add(fmt::format("l{}", i), line_path(all, chart.series[i].second, scale));
  add_event_lines(svg, all, scale);
  if (chart.trend) {
    add("trend", "M" + point(scale, chart.trend->from_s, chart.trend->begin) + "L" +
                     point(scale, chart.trend->to_s, chart.trend->end));
  }
  if (is_limit_drawn(chart)) {
    add(is_near_limit(chart) ? "limit limit-near" : "limit",
        fmt::format("M0 {:.2f}H1000", scale.y(chart.limit.value_or(0))));
  }
  if (all.failure) add("failure", fmt::format("M{:.1f} 0V100", scale.x(all.failure->at_s)));
  add_element(svg, "path", {{"class", "cursor"}, {"d", "M0 0V100"}, {"visibility", "hidden"}});
}

void add_figure(xml_node parent, const Charts& all, size_t index, Scale scale) {
  const Chart& chart = all.charts[index];
  const Axis axis = axis_of(chart);
  scale.top = axis.top;
  const xml_node figure = add_element(parent, "figure", {{"data-chart", std::to_string(index)}});
  const xml_node caption = add_text_element(figure, "figcaption", chart.title);
  add_legend(caption, all, chart);
  const xml_node plot = add_element(figure, "div", {{"class", "plot"}});
  const xml_node marks = add_element(plot, "svg", {{"class", "marks"}, {"aria-hidden", "true"}});
  const xml_node svg = add_element(plot, "svg",
                                   {{"class", "chart"},
                                    {"viewBox", "0 0 1000 100"},
                                    {"preserveAspectRatio", "none"},
                                    {"tabindex", "0"},
                                    {"role", "img"},
                                    {"aria-label", summary_of(chart)}});
  add_marks(marks, svg, axis, scale);
  add_lines(svg, all, chart, scale);
  const xml_node ends = add_element(figure, "div", {{"class", "ends"}});
  add_text_element(ends, "span", fmt::format("{:.1f} s", scale.from));
  add_element(ends, "output");
  add_text_element(ends, "span", fmt::format("{:.1f} s", scale.to));
  add_text(parent, "\n");
}

Json numbers_or_null(const Series& series) {
  Json values = Json::array();
  for (const auto& value : series)
    values.push_back(value ? Json(*value) : Json(nullptr));
  return values;
}

// For the script: numbers and our own names alone, of which none would be escaped.
std::string data_for_script(const Charts& all, const Scale& scale) {
  Json data = {{"from", scale.from}, {"to", scale.to}, {"t", all.times_s}};
  data["charts"] = Json::array();
  for (const Chart& chart : all.charts) {
    Json entry = {{"unit", chart.unit}, {"names", Json::array()}, {"values", Json::array()}};
    for (const auto& [name, series] : chart.series) {
      entry["names"].push_back(name);
      entry["values"].push_back(numbers_or_null(series));
    }
    data["charts"].push_back(std::move(entry));
  }
  return data.dump();
}

}  // namespace

void add_charts(xml_node parent, const Charts& all) {
  const Scale scale{.from = std::min(0.0, all.times_s.front()), .to = all.times_s.back()};
  add_text_element(
      parent, "p",
      "Point at a chart, or use the arrow keys in it, to read the values of one moment. Dotted "
      "vertical lines mark events (thinned when crowded); red ones are signals.",
      {{"class", "quiet"}});
  for (size_t i = 0; i < all.charts.size(); ++i)
    add_figure(parent, all, i, scale);
  add_text_element(parent, "script", data_for_script(all, scale),
                   {{"type", "application/json"}, {"id", "timeline-data"}});
}

}  // namespace dlprobe::document
