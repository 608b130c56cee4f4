// What forges show beside the code: GitHub's annotations, GitLab's code quality.

#include <fmt/format.h>

#include <map>
#include <string>

#include "reports/document/code_place.h"
#include "reports/document/text_layout.h"
#include "reports/format.h"

namespace dlprobe {
namespace {

// GitHub shows ten annotations of each level for a step, and drops the rest without a word.
constexpr size_t kMostOfALevel = 9;

// As the runner's toolkit escapes (actions/toolkit, command.ts).
std::string command_data(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '%') {
      result += "%25";
    } else if (c == '\r') {
      result += "%0D";
    } else if (c == '\n') {
      result += "%0A";
    } else {
      result += c;
    }
  }
  return result;
}

std::string command_property(std::string_view text) {
  std::string result;
  for (const char c : command_data(text)) {
    if (c == ':') {
      result += "%3A";
    } else if (c == ',') {
      result += "%2C";
    } else {
      result += c;
    }
  }
  return result;
}

std::string workflow_level(std::string_view severity) {
  if (severity == "error" || severity == "warning") return std::string(severity);
  return "notice";
}

std::string annotation(const Json& report, const Json& finding) {
  const CodePlace place = code_place(report, finding);
  std::string properties;
  if (place.is_known)
    properties = fmt::format("file={},line={},", command_property(place.path), place.line);
  properties += "title=" + command_property(fmt::format("{} {}", text_at(finding, "code"),
                                                        text_at(finding, "name")));
  std::string text = text_at(finding, "message");
  const Json& remedies = items_at(finding, "remediation");
  if (!remedies.empty()) text += "\nTo do: " + text_at(remedies.front(), "title");
  return fmt::format("::{} {}::{}\n", workflow_level(text_at(finding, "severity")), properties,
                     command_data(text));
}

std::string gitlab_severity(std::string_view severity, std::string_view confidence) {
  if (severity == "error") return confidence == "certain" ? "critical" : "major";
  return severity == "warning" ? "minor" : "info";
}

}  // namespace

std::string render_github(const Json& report) {
  std::map<std::string, size_t> counts;
  std::map<std::string, size_t> left_out;
  std::string out;
  for (const Json& finding : items_at(report, "findings")) {
    const std::string level = workflow_level(text_at(finding, "severity"));
    if (++counts[level] > kMostOfALevel) {
      ++left_out[level];
    } else {
      out += annotation(report, finding);
    }
  }
  for (const auto& [level, count] : left_out)
    out += fmt::format("::{} title=dlprobe::{} more like these: see the report\n", level, count);
  const std::string headline = text_at(object_at(report, "summary"), "headline");
  if (verdict_of(report) == OverallVerdict::kIncomplete)
    out += "::warning title=dlprobe could not tell::" + command_data(headline) + "\n";
  if (out.empty()) out = "::notice title=dlprobe::" + command_data(headline) + "\n";
  return out;
}

std::string render_gitlab(const Json& report) {
  Json issues = Json::array();
  std::map<std::string, size_t> seen;  // GitLab shows one issue for each fingerprint
  for (const Json& finding : items_at(report, "findings")) {
    const CodePlace place = code_place(report, finding);
    std::string fingerprint = text_at(finding, "fingerprint");
    if (const size_t before = seen[fingerprint]++; before > 0)
      fingerprint += fmt::format("-{}", before + 1);
    issues.push_back(
        {{"description", fmt::format("{} {}: {}", text_at(finding, "code"),
                                     text_at(finding, "name"), text_at(finding, "message"))},
         {"check_name", text_at(finding, "code")},
         {"fingerprint", fingerprint},
         {"severity",
          gitlab_severity(text_at(finding, "severity"), text_at(finding, "confidence"))},
         {"location", {{"path", place.path}, {"lines", {{"begin", place.line}}}}}});
  }
  return render_json(issues);
}

std::string render_jsonl(const Json& report) {
  return report.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dlprobe
