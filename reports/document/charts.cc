// Values over time: the chart of the cause first, and none that says nothing.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

// The page has colours for so many.
constexpr size_t kMostLines = 4;

double seconds_since(const report::Timeline& timeline, const report::Moment& moment) {
  return (static_cast<double>(moment.boottime_ns) -
          static_cast<double>(timeline.zero.boottime_ns)) /
         static_cast<double>(kSecond);
}

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

void add_series(Chart& chart, std::string name, Series series) {
  if (!series.empty()) chart.series.emplace_back(std::move(name), std::move(series));
}

Chart shm_chart(const report::Report& report) {
  Chart chart = {.title = "Shared memory in use", .unit = "bytes"};
  add_series(chart, "used", series_of(report.timeline, &report::TimelineRow::shm_used));
  for (const report::Run& run : report.runs) {
    for (const report::ShmMount& mount : run.shm_mounts) {
      if (chart.limit || mount.size_bytes.value_or(0) == 0) continue;
      chart.limit = mount.size_bytes;
      chart.limit_name = "size of the mount";
    }
  }
  return chart;
}

Chart memory_chart(const report::Report& report) {
  Chart chart = {.title = "Memory", .unit = "bytes"};
  const report::Timeline& timeline = report.timeline;
  add_series(chart, "RSS of workers", series_of(timeline, &report::TimelineRow::rss_workers));
  add_series(chart, "RSS of the trainer", series_of(timeline, &report::TimelineRow::rss_trainer));
  add_series(chart, "RSS of all", series_of(timeline, &report::TimelineRow::rss_sum));
  add_series(chart, "PSS of all", series_of(timeline, &report::TimelineRow::pss_sum));
  if (!report.runs.empty() && report.runs.back().memory) {
    chart.limit = report.runs.back().memory->limit.bytes;
    chart.limit_name = shown(report.runs.back().memory->limit.name);
  }
  return chart;
}

// Only where a few have more than the others, which are one line.
Chart worker_chart(const report::Report& report, const std::vector<double>& times_s) {
  Chart chart = {.title = "Memory of each worker (RSS)", .unit = "bytes"};
  std::optional<uint64_t> run;
  for (const report::WorkerSeries& memory : report::items_of(report.timeline.workers)) {
    // Others have other pids.
    if (memory.pids.empty() || run.value_or(memory.run) != memory.run) continue;
    run = memory.run;
    Series series(times_s.size());
    for (const report::WorkerRssRow& row : memory.rows) {
      const auto place = std::ranges::lower_bound(times_s, row.t);
      if (place != times_s.end() && *place == row.t)
        series[static_cast<size_t>(place - times_s.begin())] = static_cast<double>(row.rss);
    }
    add_series(chart,
               memory.pids.size() == 1
                   ? fmt::format("worker {}", memory.pids.front())
                   : fmt::format("each of {} other workers", memory.pids.size()),
               std::move(series));
  }
  if (chart.series.size() > kMostLines) chart.series.clear();
  return chart;
}

// The limit is one process's, and what is drawn is the sum of all: it is told in words.
Chart descriptor_chart(const report::Report& report) {
  Chart chart = {.title = "Open file descriptors", .unit = "1"};
  add_series(chart, "all processes", series_of(report.timeline, &report::TimelineRow::fds_sum));
  const auto is_subject = [&](const report::Process& process) {
    return !report.findings.empty() &&
           std::ranges::count(report.findings.front().subject.processes, process.pid,
                              &report::FindingProcess::pid) > 0;
  };
  // Of two that are as near to their limits, the one that the finding is about.
  const report::Process* nearest = nullptr;
  std::pair<double, bool> share;
  for (const report::Process& process : report.processes) {
    if (!process.fds_peak || process.open_files_limit.value_or(0) == 0) continue;
    const std::pair now(static_cast<double>(*process.fds_peak) /
                            static_cast<double>(process.open_files_limit.value_or(1)),
                        is_subject(process));
    if (nearest != nullptr && now <= share) continue;
    nearest = &process;
    share = now;
  }
  if (nearest != nullptr) {
    chart.note =
        fmt::format("limit of one process: {}; {} had {}", count_text(nearest->open_files_limit),
                    process_name(*nearest), count_text(nearest->fds_peak));
    chart.is_note_bad = share.first >= kNearLimit;
  }
  return chart;
}

Chart chart_of(const report::Report& report, std::string title, std::string unit, auto member) {
  Chart chart = {.title = std::move(title), .unit = std::move(unit)};
  add_series(chart, "all processes", series_of(report.timeline, member));
  return chart;
}

// Whether there is nothing to see in it: its values differ by less than `share` of the highest.
// `begin` and `end` bound the rows that count.
bool is_constant(const Series& series, size_t begin, size_t end, double share) {
  std::vector<double> values;
  for (const std::optional<double>& value : std::span(series).subspan(begin, end - begin)) {
    if (value) values.push_back(*value);
  }
  if (values.empty()) return true;
  const auto [least, most] = std::ranges::minmax(values);
  return most - least <= share * most;
}

// Every job starts and ends: only the cause's own chart is drawn for that alone.
bool is_worth_it(const Chart& chart, const std::vector<double>& times_s) {
  constexpr double kLittle = 0.05;
  constexpr double kLittleOfCause = 0.01;
  const auto changes = [&](size_t begin, size_t end, double share) {
    return std::ranges::any_of(chart.series, [&](const auto& series) {
      return !is_constant(series.second, begin, end, share);
    });
  };
  if (chart.is_of_cause) return changes(0, times_s.size(), kLittleOfCause);
  if (chart.limit && highest(chart) < kLittleOfCause * *chart.limit) return false;
  const double span = times_s.back() - times_s.front();
  const auto place = [&](double part) {
    const auto found = std::ranges::lower_bound(times_s, times_s.front() + part * span);
    return static_cast<size_t>(found - times_s.begin());
  };
  return changes(place(0.1), std::max(place(0.1), place(0.95)), kLittle);
}

// The series of the processes that the finding is about.
const Series* series_of_subject(const Chart& chart, const report::Finding& finding) {
  for (const report::FindingProcess& process : finding.subject.processes) {
    const auto own = std::ranges::find(chart.series, fmt::format("worker {}", process.pid),
                                       [](const auto& each) { return each.first; });
    if (own != chart.series.end()) return &own->second;
  }
  std::string_view name = "all";
  if (!finding.subject.processes.empty()) {
    const std::optional<Role> role = finding.subject.processes.front().role;
    if (role == Role::kWorker) name = "workers";
    if (role == Role::kTrainer) name = "trainer";
  }
  for (const auto& [each, series] : chart.series) {
    if (each.ends_with(name)) return &series;
  }
  return chart.series.empty() ? nullptr : &chart.series.front().second;
}

// How fast the finding says that it grew, drawn up to where that was last seen.
void add_trend(Chart& chart, const Charts& all, const report::Report& report) {
  const report::Finding& finding = report.findings.front();
  const auto growth = std::ranges::find(finding.evidence, "growth", &report::Evidence::name);
  const Series* series = series_of_subject(chart, finding);
  if (growth == finding.evidence.end() || growth->unit != chart.unit + "/s" || series == nullptr)
    return;
  if (!growth->value || !finding.first_seen || !finding.last_seen) return;
  const auto* whole = std::get_if<int64_t>(&growth->value->value);
  const auto* real = std::get_if<double>(&growth->value->value);
  if (whole == nullptr && real == nullptr) return;
  const double slope = whole != nullptr ? static_cast<double>(*whole) : *real;
  const double from = seconds_since(report.timeline, *finding.first_seen);
  const double to = seconds_since(report.timeline, *finding.last_seen);
  std::optional<double> last;
  for (size_t i = 0; i < all.times_s.size() && all.times_s[i] <= to; ++i) {
    if ((*series)[i]) last = (*series)[i];
  }
  const bool is_inside = from >= all.times_s.front() && from < to && to <= all.times_s.back();
  if (!last || !is_inside || !std::isfinite(slope)) return;
  chart.trend = {.from_s = from,
                 .to_s = to,
                 .begin = std::max(0.0, *last - slope * (to - from)),
                 .end = *last,
                 .name = "growth: " + value_text(*growth)};
}

// When an error was first seen, in words too.
std::optional<Charts::Failure> failure_of(const Charts& all, const report::Report& report) {
  if (report.findings.empty()) return std::nullopt;
  const report::Finding& finding = report.findings.front();
  if (finding.severity != Severity::kError || !finding.first_seen) return std::nullopt;
  const double at = seconds_since(report.timeline, *finding.first_seen);
  if (at < all.times_s.front() || at > all.times_s.back()) return std::nullopt;
  return Charts::Failure{
      .at_s = at, .text = fmt::format("{}: first seen at {:.1f} s", shown(finding.name), at)};
}

bool is_end_by_signal(const report::TimelineEvent& event, const report::Report& report) {
  return event.kind == "exit" &&
         std::ranges::any_of(report.processes, [&](const report::Process& process) {
           return process.run == event.run && process.pid == event.pid && process.exit &&
                  process.exit->signal;
         });
}

}  // namespace

Charts charts_of(const report::Report& report) {
  Charts drawing;
  for (const report::TimelineRow& row : report.timeline.rows) {
    const bool is_back = !drawing.times_s.empty() && row.t < drawing.times_s.back();
    if (!std::isfinite(row.t) || is_back) return {};
    drawing.times_s.push_back(row.t);
    drawing.runs.push_back(static_cast<double>(row.run));
  }
  // Nothing to draw unless time passes.
  if (drawing.times_s.size() < 2 || drawing.times_s.front() == drawing.times_s.back()) return {};
  constexpr std::string_view kOfProcesses = "DLP06";
  // A chart, and the beginning of the codes of findings that it shows.
  std::vector<std::pair<std::string_view, Chart>> charts = {
      {"DLP01", shm_chart(report)},
      {"DLP05", worker_chart(report, drawing.times_s)},
      {"DLP05", memory_chart(report)},
      {"DLP05", chart_of(report, "Swap", "bytes", &report::TimelineRow::swap_sum)},
      {"DLP02", descriptor_chart(report)},
      {kOfProcesses, chart_of(report, "Processes", "1", &report::TimelineRow::processes)},
      {"-", chart_of(report, "Batches per second", "1/s", &report::TimelineRow::batches_per_s)}};
  for (auto& [codes, chart] : charts) {
    chart.is_of_cause = !report.findings.empty() && report.findings.front().code.starts_with(codes);
    const bool is_for_cause_alone = codes == kOfProcesses;
    if (is_for_cause_alone && !chart.is_of_cause) continue;
    if (!is_worth_it(chart, drawing.times_s)) continue;
    if (chart.is_of_cause) add_trend(chart, drawing, report);
    drawing.charts.push_back(std::move(chart));
  }
  std::ranges::stable_partition(drawing.charts, &Chart::is_of_cause);
  drawing.failure = failure_of(drawing, report);
  for (const report::TimelineEvent& event : report.timeline.events) {
    if (std::isfinite(event.t_s))
      drawing.events.push_back({.at_s = event.t_s, .is_bad = is_end_by_signal(event, report)});
  }
  return drawing;
}

}  // namespace dlprobe::document
