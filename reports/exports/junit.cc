#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <string>

#include <pugixml.hpp>

#include "reports/document/text_layout.h"
#include "reports/format.h"

namespace dlprobe {
namespace {

// What XML 1.0 can hold: shown() has made all but tabs and newlines of the control characters
// visible; U+FFFE and U+FFFF cannot be written.
std::string xml_text(std::string text) {
  for (const std::string_view bad : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (size_t at = text.find(bad); at != std::string::npos; at = text.find(bad, at))
      text.replace(at, bad.size(), "?");
  }
  return text;
}

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name) = xml_text(value).c_str();
}

std::string whole_text(const report::Finding& finding) {
  std::string text = fmt::format("{} ({}, {})\n{}\n", shown(finding.title), shown(finding.severity),
                                 shown(finding.confidence), shown(finding.message));
  for (const report::Evidence& fact : finding.evidence) {
    text += fmt::format("{} = {} [{}]\n", shown(fact.name), value_text(fact), shown(fact.source));
  }
  for (const report::Remedy& remedy : finding.remediation) {
    text += fmt::format("To do: {}\n", shown(remedy.title));
    for (const std::string& command : remedy.commands)
      text += "  " + shown(command) + "\n";
  }
  return text;
}

struct SuiteCounts {
  size_t tests = 0;
  size_t failures = 0;
  size_t errors = 0;
  size_t skipped = 0;
};

// The findings of a check that make it fail, the others as its output.
void add_findings(pugi::xml_node test, const report::Report& report, const report::Check& check,
                  SuiteCounts& counts) {
  std::string failures;
  std::string others;
  std::string first_message;
  for (const std::string& id : check.findings) {
    for (const report::Finding& finding : report.findings) {
      if (finding.id != id) continue;
      const bool fails = finding.severity >= report.invocation.fail_on;
      if (fails && first_message.empty()) first_message = shown(finding.message);
      (fails ? failures : others) += whole_text(finding);
    }
  }
  if (!failures.empty()) {
    ++counts.failures;
    const pugi::xml_node failure = test.append_child("failure");
    set(failure, "message", first_message);
    set(failure, "type", shown(check.code));
    failure.text() = xml_text(failures).c_str();
  }
  if (!others.empty()) test.append_child("system-out").text() = xml_text(others).c_str();
}

void add_check(pugi::xml_node suite, const report::Report& report, const report::Check& check,
               SuiteCounts& counts) {
  ++counts.tests;
  pugi::xml_node test = suite.append_child("testcase");
  const std::string id = shown(check.id);
  set(test, "classname", "dlprobe." + id.substr(0, id.find('.')));
  set(test, "name", (check.code ? shown(check.code) + " " : "") + shown(check.title));
  set(test, "time", fmt::format("{:.3f}", check.duration_s.value_or(0)));
  const std::string why = shown(check.text);
  if (check.status == CheckStatus::kIncomplete) {
    ++counts.errors;
    const pugi::xml_node error = test.append_child("error");
    set(error, "message", why.empty() ? "could not be checked" : why);
    set(error, "type", "incomplete");
  } else if (check.status == CheckStatus::kSkipped) {
    ++counts.skipped;
    set(test.append_child("skipped"), "message", why);
  }
  add_findings(test, report, check, counts);
}

std::string gaps_text(const report::Report& report) {
  std::string text;
  for (const auto& [gap, required] : report.limitations)
    text += fmt::format("could not be seen: {}: {}\n", shown(gap.what), shown(gap.why));
  return text;
}

}  // namespace

std::string render_junit(const report::Report& report) {
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  declaration.append_attribute("version") = "1.0";
  declaration.append_attribute("encoding") = "UTF-8";
  pugi::xml_node suites = document.append_child("testsuites");
  pugi::xml_node suite = suites.append_child("testsuite");
  const report::Invocation& invocation = report.invocation;
  SuiteCounts counts;
  pugi::xml_node properties = suite.append_child("properties");
  const auto property = [&](const char* name, const std::string& value) {
    const pugi::xml_node node = properties.append_child("property");
    set(node, "name", name);
    set(node, "value", value);
  };
  property("verdict", shown(report.summary.verdict));
  property("headline", shown(report.summary.headline));
  property("dlprobe", shown(report.tool.version));
  for (const report::Check& check : report.checks)
    add_check(suite, report, check, counts);
  if (const std::string gaps = gaps_text(report); !gaps.empty())
    suite.append_child("system-out").text() = xml_text(gaps).c_str();
  set(suite, "name", "dlprobe " + shown(invocation.probe));
  // xs:dateTime without a zone, as the schemas of JUnit want it; it is UTC.
  set(suite, "timestamp", shown(invocation.started.at).substr(0, 19));
  set(suite, "hostname", shown(report.host.name));
  set(suite, "tests", std::to_string(counts.tests));
  set(suite, "failures", std::to_string(counts.failures));
  set(suite, "errors", std::to_string(counts.errors));
  set(suite, "skipped", std::to_string(counts.skipped));
  const double seconds = invocation.duration_s;
  set(suite, "time", fmt::format("{:.3f}", std::isfinite(seconds) ? seconds : 0));
  std::ostringstream out;
  document.save(out, "  ", pugi::format_default, pugi::encoding_utf8);
  return std::move(out).str();
}

}  // namespace dlprobe
