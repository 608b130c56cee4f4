// What monitoring reads: Prometheus, Nagios and its kin, node-problem-detector.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "lib/base/parse.h"
#include "reports/document/text_layout.h"
#include "reports/exports/replaced.h"
#include "reports/format.h"

namespace dlprobe {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

/// The exposition format of Prometheus (text, 0.0.4) that is also valid OpenMetrics.
class Exposition {
 public:
  void family(std::string_view name, std::string_view help, std::string_view unit = "") {
    name_ = "dlprobe_" + std::string(name);
    out_ += fmt::format("# HELP {} {}\n# TYPE {} gauge\n", name_, help, name_);
    if (!unit.empty()) out_ += fmt::format("# UNIT {} {}\n", name_, unit);
  }
  void sample(const Labels& labels, double value) {
    std::string text;
    for (const auto& [key, label] : labels)
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", key,
                          replaced(label, {{'"', "\\\""}, {'\\', "\\\\"}}));
    out_ += name_ + (text.empty() ? "" : "{" + text + "}");
    out_ += fmt::format(" {}\n", value);
  }
  std::string take() && { return std::move(out_) + "# EOF\n"; }

 private:
  std::string name_;
  std::string out_;
};

void add_findings(Exposition& out, const report::Report& report) {
  const report::Counts& counts = report.summary.counts;
  out.family("findings", "Findings of the last run by severity.");
  out.sample({{"severity", "error"}}, static_cast<double>(counts.error));
  out.sample({{"severity", "warning"}}, static_cast<double>(counts.warning));
  out.sample({{"severity", "info"}}, static_cast<double>(counts.info));
  std::map<std::pair<std::string, std::string>, Labels> active;
  for (const report::Finding& finding : report.findings) {
    Labels labels = {{"code", shown(finding.code)},
                     {"name", shown(finding.name)},
                     {"severity", shown(finding.severity)}};
    active.try_emplace({labels[0].second, labels[2].second}, std::move(labels));
  }
  out.family("finding_active", "1 for each cause that the last run named.");
  for (const auto& [key, labels] : active)
    out.sample(labels, 1);
}

void add_mounts(Exposition& out, const report::Report& report) {
  if (report.runs.empty() || report.runs.back().shm_mounts.empty()) return;
  const auto each = [&](std::string_view name, std::string_view help, auto member) {
    out.family(name, help, "bytes");
    std::map<std::string, double> values;  // one sample for each mount point
    for (const report::ShmMount& mount : report.runs.back().shm_mounts) {
      if (const auto bytes = mount.*member)
        values[shown(mount.mount_point)] = static_cast<double>(*bytes);
    }
    for (const auto& [mount, bytes] : values)
      out.sample({{"mount", mount}}, bytes);
  };
  each("shm_size_bytes", "Size of the shared memory file system.", &report::ShmMount::size_bytes);
  each("shm_used_bytes", "Its use at the last look.", &report::ShmMount::last_used_bytes);
}

// Seconds since the epoch of "2026-11-20T21:47:44.120Z"; nothing for anything else.
std::optional<double> epoch_of(const std::string& utc) {
  if (utc.size() != 24) return std::nullopt;
  tm parts = {};
  const char* rest = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  const auto milli = rest == nullptr ? std::nullopt : parse_int<int>(utc.substr(20, 3));
  if (!milli) return std::nullopt;
  return static_cast<double>(::timegm(&parts)) + *milli / 1e3;
}

// Printable ASCII alone; anything else becomes a '?'.
std::string ascii(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += c >= ' ' && c <= '~' ? c : '?';
  return result;
}

std::string first_finding(const report::Report& report) {
  const std::vector<report::Finding>& findings = report.findings;
  const auto worst = std::ranges::max_element(findings, {}, &report::Finding::severity);
  if (worst == findings.end() || worst->severity == Severity::kInfo)
    return shown(report.summary.headline);
  const report::Finding& finding = *worst;
  return fmt::format("{} {}: {}", shown(finding.code), shown(finding.name), shown(finding.message));
}

std::string_view nagios_state(OverallVerdict verdict) {
  switch (verdict) {
    case OverallVerdict::kPass:
      return "OK";
    case OverallVerdict::kWarn:
      return "WARNING";
    case OverallVerdict::kFail:
      return "CRITICAL";
    case OverallVerdict::kIncomplete:
      break;
  }
  return "UNKNOWN";
}

// A '|' would begin the performance data.
std::string without_bars(std::string text) {
  std::ranges::replace(text, '|', '/');
  return text;
}

}  // namespace

std::string nagios_line(OverallVerdict verdict, std::string_view text) {
  std::string line(text);
  // What follows a line break is no part of the state.
  std::ranges::replace(line, '\n', ' ');
  return fmt::format("DLPROBE {} - {}", nagios_state(verdict), without_bars(std::move(line)));
}

std::string render_prometheus(const report::Report& report) {
  Exposition out;
  out.family("build_info", "The version that made these numbers.");
  out.sample({{"version", shown(report.tool.version)}}, 1);
  out.family("verdict", "1 for the verdict of the last run, 0 for the others.");
  for (const OverallVerdict verdict : kValues<OverallVerdict>)
    out.sample({{"verdict", shown(verdict)}}, verdict == report.summary.verdict ? 1 : 0);
  out.family("exit_code", "Exit code of the last run: 0 pass, 1 finding, 3 incomplete.");
  out.sample({}, report.invocation.exit_code.value);
  add_findings(out, report);
  add_mounts(out, report);
  if (const auto ended = epoch_of(shown(report.invocation.ended.at))) {
    out.family("last_run_timestamp_seconds", "When the last run ended.", "seconds");
    out.sample({}, *ended);
  }
  if (const double seconds = report.invocation.duration_s; std::isfinite(seconds)) {
    out.family("last_run_duration_seconds", "How long the last run took.", "seconds");
    out.sample({}, seconds);
  }
  return std::move(out).take();
}

std::string render_nagios(const report::Report& report) {
  const report::Counts& counts = report.summary.counts;
  std::string line = nagios_line(report.summary.verdict, first_finding(report)) + " |";
  line += fmt::format(" errors={};;0;0; warnings={};0;;0;", counts.error, counts.warning);
  if (!report.runs.empty() && !report.runs.back().shm_mounts.empty()) {
    const report::ShmMount& mount = report.runs.back().shm_mounts.front();
    if (mount.last_used_bytes && mount.size_bytes)
      line += fmt::format(" shm_used={}B;;;0;{}", *mount.last_used_bytes, *mount.size_bytes);
  }
  return line + "\n";
}

std::string render_npd(const report::Report& report) {
  constexpr size_t kMost = 80;
  std::string text = first_finding(report);
  if (report.summary.verdict == OverallVerdict::kPass) text = "ok: " + text;
  text = ascii(text);
  if (text.size() > kMost - 1) text = text.substr(0, kMost - 4) + "...";
  return text + "\n";
}

}  // namespace dlprobe
