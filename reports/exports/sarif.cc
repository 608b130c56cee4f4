#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "lib/model/finding.h"
#include "reports/document/text_layout.h"
#include "reports/exports/code_place.h"
#include "reports/format.h"
#include "reports/model/write_json.h"

namespace dlprobe {
namespace {

std::string sarif_level(Severity severity) {
  return severity == Severity::kInfo ? "note" : shown(severity);
}

Json message(const std::string& text) {
  return {{"text", text}};
}

// PascalCase of "shm-too-small", as the specification wants a rule's name (3.49.7).
std::string pascal_case(std::string_view name) {
  std::string result;
  bool is_first = true;
  for (const char c : name) {
    if (c == '-') {
      is_first = true;
      continue;
    }
    result += is_first ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    is_first = false;
  }
  return result;
}

Json rule_of(const FindingInfo& registered) {
  const std::string_view page = finding_page(registered.id);
  return {{"id", registered.code},
          {"name", pascal_case(registered.name)},
          {"shortDescription", message(std::string(registered.title))},
          {"help",
           {{"text", fmt::format("dlprobe explain {}", registered.code)},
            {"markdown", std::string(page)}}},
          {"defaultConfiguration", {{"level", sarif_level(registered.severity)}}}};
}

// The codes that were looked for or found, in the order of the registry.
Json rules_of(const report::Report& report, std::map<std::string, size_t>& indices) {
  std::set<std::string> codes;
  for (const report::Check& check : report.checks)
    codes.insert(shown(check.code));
  for (const report::Finding& finding : report.findings)
    codes.insert(finding.code);
  for (const report::Finding& finding : report::items_of(report.suppressed))
    codes.insert(finding.code);
  Json rules = Json::array();
  for (const FindingInfo& registered : all_findings()) {
    if (!codes.contains(std::string(registered.code))) continue;
    indices.emplace(registered.code, rules.size());
    rules.push_back(rule_of(registered));
  }
  return rules;
}

Json location_of(const CodePlace& place) {
  Json location = {{"physicalLocation",
                    {{"artifactLocation", {{"uri", uri_of(place.path)}}},
                     {"region", {{"startLine", place.line}}}}}};
  if (!place.what.empty()) location["message"] = message(place.what);
  return location;
}

Json logical_locations(const report::Finding& finding) {
  Json result = Json::array();
  for (const report::FindingProcess& process : finding.subject.processes) {
    result.push_back({{"name", fmt::format("{} {}", shown(process.role), shown(process.comm))},
                      {"fullyQualifiedName", fmt::format("pid:{}", process.pid)},
                      {"kind", "process"}});
  }
  return result;
}

std::string words_of(const report::Finding& finding) {
  std::string text = shown(finding.message);
  for (const report::Evidence& fact : finding.evidence) {
    text += fmt::format("\n{} = {} [{}]", shown(fact.name), value_text(fact), shown(fact.source));
  }
  if (!finding.remediation.empty()) text += "\nTo do: " + shown(finding.remediation.front().title);
  return text;
}

Json result_of(const report::Report& report, const report::Finding& finding,
               const std::map<std::string, size_t>& indices) {
  const std::string code = shown(finding.code);
  Json result = {{"ruleId", code},
                 {"level", sarif_level(finding.severity)},
                 {"kind", "fail"},
                 {"message", message(words_of(finding))},
                 {"partialFingerprints", {{"dlprobe/v1", shown(finding.fingerprint)}}}};
  if (const auto index = indices.find(code); index != indices.end())
    result["ruleIndex"] = index->second;
  Json location = location_of(code_place(report, finding));
  Json logical = logical_locations(finding);
  if (!logical.empty()) location["logicalLocations"] = std::move(logical);
  result["locations"] = Json::array({std::move(location)});
  const std::vector<report::Location>& places = report::items_of(finding.locations);
  for (size_t i = 1; i < places.size(); ++i)
    result["relatedLocations"].push_back(location_of(code_place(report, places[i])));
  if (finding.suppressed) {
    result["suppressions"] = Json::array(
        {{{"kind", "external"}, {"justification", suppression_text(*finding.suppressed)}}});
  }
  result["properties"] = {{"confidence", shown(finding.confidence)}};
  return result;
}

// Findings alone: GitHub shows a result of kind "pass" as an alert, and refuses the whole file for
// a result without a location. What was checked is in the rules.
Json results_of(const report::Report& report, const std::map<std::string, size_t>& indices) {
  Json results = Json::array();
  for (const report::Finding& finding : report.findings)
    results.push_back(result_of(report, finding, indices));
  for (const report::Finding& finding : report::items_of(report.suppressed))
    results.push_back(result_of(report, finding, indices));
  return results;
}

Json notifications_of(const report::Report& report) {
  Json notifications = Json::array();
  for (const auto& [gap, required] : report.limitations) {
    notifications.push_back(
        {{"level", "warning"}, {"message", message(shown(gap.what) + ": " + shown(gap.why))}});
  }
  return notifications;
}

Json invocation_of(const report::Report& report) {
  Json result = {{"executionSuccessful", report.summary.verdict != OverallVerdict::kIncomplete},
                 {"exitCode", report.invocation.exit_code.value},
                 {"machine", shown(report.host.name)}};
  if (const std::string at = shown(report.invocation.started.at); !at.empty())
    result["startTimeUtc"] = at;
  if (const std::string at = shown(report.invocation.ended.at); !at.empty())
    result["endTimeUtc"] = at;
  result["toolExecutionNotifications"] = notifications_of(report);
  return result;
}

}  // namespace

std::string render_sarif(const report::Report& report) {
  std::map<std::string, size_t> indices;
  Json rules = rules_of(report, indices);
  Json run = {{"tool",
               {{"driver",
                 {{"name", "dlprobe"},
                  {"version", shown(report.tool.version)},
                  {"rules", std::move(rules)}}}}}};
  run["invocations"] = Json::array({invocation_of(report)});
  run["automationDetails"] = {{"id", fmt::format("dlprobe/{}/", shown(report.invocation.probe))}};
  run["redactionTokens"] = Json::array({shown(report.redaction.mask)});
  run["columnKind"] = "unicodeCodePoints";
  run["results"] = results_of(report, indices);
  const Json sarif = {{"$schema",
                       "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
                       "sarif-schema-2.1.0.json"},
                      {"version", "2.1.0"},
                      {"runs", Json::array({std::move(run)})}};
  return text_of_json(sarif);
}

}  // namespace dlprobe
