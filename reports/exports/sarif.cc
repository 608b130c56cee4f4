#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "lib/model/finding.h"
#include "reports/document/code_place.h"
#include "reports/document/text_layout.h"
#include "reports/format.h"

namespace dlprobe {
namespace {

std::string sarif_level(std::string_view severity) {
  if (severity == "error" || severity == "warning") return std::string(severity);
  return "note";
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
          {"defaultConfiguration", {{"level", sarif_level(to_string(registered.severity))}}}};
}

// The codes that were looked for or found, in the order of the registry.
Json rules_of(const Json& report, std::map<std::string, size_t>& indices) {
  std::set<std::string> codes;
  for (const char* section : {"checks", "findings", "suppressed"}) {
    for (const Json& each : items_at(report, section))
      codes.insert(text_at(each, "code"));
  }
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

Json logical_locations(const Json& finding) {
  Json result = Json::array();
  for (const Json& process : items_at(object_at(finding, "subject"), "processes")) {
    result.push_back(
        {{"name", fmt::format("{} {}", text_at(process, "role"), text_at(process, "comm"))},
         {"fullyQualifiedName", fmt::format("pid:{}", integer_at(process, "pid"))},
         {"kind", "process"}});
  }
  return result;
}

std::string words_of(const Json& finding) {
  std::string text = text_at(finding, "message");
  for (const Json& fact : items_at(finding, "evidence")) {
    const Json value = fact.is_object() ? fact.value("value", Json()) : Json();
    text += fmt::format("\n{} = {} [{}]", text_at(fact, "name"),
                        value_with_unit(value, text_at(fact, "unit")), text_at(fact, "source"));
  }
  const Json& remedies = items_at(finding, "remediation");
  if (!remedies.empty()) text += "\nTo do: " + text_at(remedies.front(), "title");
  return text;
}

Json suppressions_of(const Json& finding) {
  Json result = Json::array();
  if (object_at(finding, "suppressed").empty()) return result;
  result.push_back({{"kind", "external"}, {"justification", suppression_text(finding)}});
  return result;
}

Json result_of(const Json& report, const Json& finding,
               const std::map<std::string, size_t>& indices) {
  const std::string code = text_at(finding, "code");
  Json result = {{"ruleId", code},
                 {"level", sarif_level(text_at(finding, "severity"))},
                 {"kind", "fail"},
                 {"message", message(words_of(finding))},
                 {"partialFingerprints", {{"dlprobe/v1", text_at(finding, "fingerprint")}}}};
  if (const auto index = indices.find(code); index != indices.end())
    result["ruleIndex"] = index->second;
  Json location = location_of(code_place(report, finding));
  Json logical = logical_locations(finding);
  if (!logical.empty()) location["logicalLocations"] = std::move(logical);
  result["locations"] = Json::array({std::move(location)});
  const Json& places = items_at(finding, "locations");
  for (size_t i = 1; i < places.size(); ++i) {
    const Json other = {{"locations", Json::array({places[i]})}};
    result["relatedLocations"].push_back(location_of(code_place(report, other)));
  }
  Json suppressions = suppressions_of(finding);
  if (!suppressions.empty()) result["suppressions"] = std::move(suppressions);
  result["properties"] = {{"confidence", text_at(finding, "confidence")}};
  return result;
}

// Findings alone: GitHub shows a result of kind "pass" as an alert, and refuses the whole file for
// a result without a location. What was looked for is in the rules.
Json results_of(const Json& report, const std::map<std::string, size_t>& indices) {
  Json results = Json::array();
  for (const char* section : {"findings", "suppressed"}) {
    for (const Json& finding : items_at(report, section))
      results.push_back(result_of(report, finding, indices));
  }
  return results;
}

Json notifications_of(const Json& report) {
  Json notifications = Json::array();
  for (const Json& gap : items_at(report, "limitations")) {
    notifications.push_back(
        {{"level", "warning"},
         {"message", message(text_at(gap, "what") + ": " + text_at(gap, "why"))}});
  }
  return notifications;
}

Json invocation_of(const Json& report) {
  const Json& invocation = object_at(report, "invocation");
  const bool is_complete = verdict_of(report) != OverallVerdict::kIncomplete;
  Json result = {{"executionSuccessful", is_complete},
                 {"exitCode", exit_code_of(report)},
                 {"machine", text_at(object_at(report, "host"), "name")}};
  if (const std::string at = text_at(invocation, "started_at"); !at.empty())
    result["startTimeUtc"] = at;
  if (const std::string at = text_at(invocation, "ended_at"); !at.empty())
    result["endTimeUtc"] = at;
  result["toolExecutionNotifications"] = notifications_of(report);
  return result;
}

}  // namespace

std::string render_sarif(const Json& report) {
  std::map<std::string, size_t> indices;
  Json rules = rules_of(report, indices);
  const Json& tool = object_at(report, "tool");
  Json run = {{"tool",
               {{"driver",
                 {{"name", "dlprobe"},
                  {"version", text_at(tool, "version")},
                  {"rules", std::move(rules)}}}}}};
  run["invocations"] = Json::array({invocation_of(report)});
  run["automationDetails"] = {
      {"id", fmt::format("dlprobe/{}/", text_at(object_at(report, "invocation"), "probe"))}};
  run["redactionTokens"] = Json::array({text_at(object_at(report, "redaction"), "mask")});
  run["columnKind"] = "unicodeCodePoints";
  run["results"] = results_of(report, indices);
  const Json sarif = {{"$schema",
                       "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
                       "sarif-schema-2.1.0.json"},
                      {"version", "2.1.0"},
                      {"runs", Json::array({std::move(run)})}};
  return render_json(sarif);
}

}  // namespace dlprobe
