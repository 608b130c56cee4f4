#include <fmt/format.h>

#include <algorithm>
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
constexpr double kHeadroom = 1.08;  ///< above the highest value

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
    path += is_on && !is_new_run ? "L" : "M";
    path += point(scale, all.times_s[i], series[i].value_or(0));
    is_on = true;
  }
  return path;
}

double highest(const Series& series) {
  double most = 0;
  for (const auto& value : series)
    most = std::max(most, value.value_or(0));
  return most;
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

void add_legend(xml_node caption, const Chart& chart) {
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const xml_node legend = add_element(caption, "span", {{"class", "legend"}});
    add_element(legend, "span", {{"class", fmt::format("key k{}", i)}});
    add_text(legend, chart.series[i].first);
  }
  if (chart.limit) {
    add_text_element(caption, "span",
                     chart.limit_name + ": " + number_text(chart.limit, chart.unit),
                     {{"class", "legend fail"}});
  }
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

double top_of(const Chart& chart) {
  double most = 0;
  for (const auto& [name, series] : chart.series)
    most = std::max(most, highest(series));
  // A limit far above would press the line to the ground.
  constexpr double kFar = 4;
  if (chart.limit && *chart.limit <= kFar * most) most = std::max(most, *chart.limit);
  most *= kHeadroom;
  return chart.unit == "1" ? std::ceil(most) : most;
}

void add_figure(xml_node parent, const Charts& all, size_t index, Scale scale) {
  const Chart& chart = all.charts[index];
  scale.top = top_of(chart);
  const std::string top =
      chart.unit == "1" ? fmt::format("{:.0f}", scale.top) : number_text(scale.top, chart.unit);
  const xml_node figure = add_element(parent, "figure", {{"data-chart", std::to_string(index)}});
  const xml_node caption = add_text_element(figure, "figcaption", chart.title);
  add_legend(caption, chart);
  const xml_node svg = add_element(figure, "svg",
                                   {{"class", "chart"},
                                    {"viewBox", "0 0 1000 100"},
                                    {"preserveAspectRatio", "none"},
                                    {"tabindex", "0"},
                                    {"role", "img"},
                                    {"aria-label", summary_of(chart)}});
  for (size_t i = 0; i < chart.series.size(); ++i) {
    add_element(
        svg, "path",
        {{"class", fmt::format("l{}", i)}, {"d", line_path(all, chart.series[i].second, scale)}});
  }
  add_event_lines(svg, all, scale);
  if (chart.limit && *chart.limit <= scale.top) {
    add_element(svg, "path",
                {{"class", "limit"}, {"d", fmt::format("M0 {:.2f}H1000", scale.y(*chart.limit))}});
  }
  add_element(svg, "path", {{"class", "cursor"}, {"d", "M0 0V100"}, {"visibility", "hidden"}});
  const xml_node ends = add_element(figure, "div", {{"class", "ends"}});
  add_text_element(ends, "span", fmt::format("{:.1f} s", scale.from));
  add_text_element(ends, "output", "top: " + top);
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
      "Point at a chart, or use the arrow keys in it, to read the values at one moment "
      "in all of them. Vertical lines mark events (thinned when crowded); red ones "
      "are signals.",
      {{"class", "quiet"}});
  for (size_t i = 0; i < all.charts.size(); ++i)
    add_figure(parent, all, i, scale);
  add_text_element(parent, "script", data_for_script(all, scale),
                   {{"type", "application/json"}, {"id", "timeline-data"}});
}

}  // namespace dlprobe::document
