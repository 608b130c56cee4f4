// What forges show beside the code: GitHub's annotations, GitLab's code quality.

#include <fmt/format.h>

#include <map>
#include <string>

#include "reports/document/text_layout.h"
#include "reports/exports/code_place.h"
#include "reports/exports/replaced.h"
#include "reports/format.h"
#include "reports/model/write_json.h"

namespace dlprobe {
namespace {

// GitHub shows ten annotations of each level for a step, and drops the rest without a word.
constexpr size_t kMostOfALevel = 9;

// As the runner's toolkit escapes (actions/toolkit, command.ts).
std::string command_data(std::string_view text) {
  return replaced(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}

std::string command_property(std::string_view text) {
  return replaced(command_data(text), {{':', "%3A"}, {',', "%2C"}});
}

std::string workflow_level(Severity severity) {
  return severity == Severity::kInfo ? "notice" : shown(severity);
}

std::string annotation(const report::Report& report, const report::Finding& finding) {
  const CodePlace place = code_place(report, finding);
  std::string properties;
  if (place.is_known)
    properties = fmt::format("file={},line={},", command_property(place.path), place.line);
  properties +=
      "title=" + command_property(fmt::format("{} {}", shown(finding.code), shown(finding.name)));
  std::string text = shown(finding.message);
  if (!finding.remediation.empty()) text += "\nTo do: " + shown(finding.remediation.front().title);
  return fmt::format("::{} {}::{}\n", workflow_level(finding.severity), properties,
                     command_data(text));
}

std::string_view gitlab_severity(const report::Finding& finding) {
  if (finding.severity == Severity::kError)
    return finding.confidence == Confidence::kCertain ? "critical" : "major";
  return finding.severity == Severity::kWarning ? "minor" : "info";
}

}  // namespace

std::string render_github(const report::Report& report) {
  std::map<std::string, size_t> counts;
  std::map<std::string, size_t> left_out;
  std::string out;
  for (const report::Finding& finding : report.findings) {
    const std::string level = workflow_level(finding.severity);
    if (++counts[level] > kMostOfALevel) {
      ++left_out[level];
    } else {
      out += annotation(report, finding);
    }
  }
  for (const auto& [level, count] : left_out)
    out += fmt::format("::{} title=dlprobe::{} more like these: see the report\n", level, count);
  const std::string headline = shown(report.summary.headline);
  if (report.summary.verdict == OverallVerdict::kIncomplete)
    out += "::warning title=dlprobe could not tell::" + command_data(headline) + "\n";
  if (out.empty()) out = "::notice title=dlprobe::" + command_data(headline) + "\n";
  return out;
}

std::string render_gitlab(const report::Report& report) {
  Json issues = Json::array();
  std::map<std::string, size_t> seen;  // GitLab shows one issue for each fingerprint
  for (const report::Finding& finding : report.findings) {
    const CodePlace place = code_place(report, finding);
    std::string fingerprint = shown(finding.fingerprint);
    if (const size_t before = seen[fingerprint]++; before > 0)
      fingerprint += fmt::format("-{}", before + 1);
    issues.push_back({{"description", fmt::format("{} {}: {}", shown(finding.code),
                                                  shown(finding.name), shown(finding.message))},
                      {"check_name", shown(finding.code)},
                      {"fingerprint", fingerprint},
                      {"severity", gitlab_severity(finding)},
                      {"location", {{"path", place.path}, {"lines", {{"begin", place.line}}}}}});
  }
  return text_of_json(issues);
}

std::string render_jsonl(const AnyReport& report) {
  return json_of(report).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace dlprobe
