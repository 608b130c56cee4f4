#include <fmt/format.h>

#include <sstream>
#include <string>

#include <pugixml.hpp>

#include "reports/document/text_layout.h"
#include "reports/format.h"

namespace dlprobe {
namespace {

// What XML 1.0 can hold: text_at() has made all but tabs and newlines of the control characters
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

std::string whole_text(const Json& finding) {
  std::string text =
      fmt::format("{} ({}, {})\n{}\n", text_at(finding, "title"), text_at(finding, "severity"),
                  text_at(finding, "confidence"), text_at(finding, "message"));
  for (const Json& fact : items_at(finding, "evidence")) {
    const Json value = fact.is_object() ? fact.value("value", Json()) : Json();
    text += fmt::format("{} = {} [{}]\n", text_at(fact, "name"),
                        value_with_unit(value, text_at(fact, "unit")), text_at(fact, "source"));
  }
  for (const Json& remedy : items_at(finding, "remediation")) {
    text += fmt::format("To do: {}\n", text_at(remedy, "title"));
    for (const Json& command : items_at(remedy, "commands"))
      text += "  " + value_with_unit(command, "") + "\n";
  }
  return text;
}

int rank_of(std::string_view severity) {
  if (severity == "error") return 2;
  return severity == "warning" ? 1 : 0;
}

struct SuiteCounts {
  size_t tests = 0;
  size_t failures = 0;
  size_t errors = 0;
  size_t skipped = 0;
};

// The findings of a check that make it fail, the others as its output.
void add_findings(pugi::xml_node test, const Json& report, const Json& check, SuiteCounts& counts) {
  const int fail_on = rank_of(text_at(object_at(report, "invocation"), "fail_on"));
  std::string failures;
  std::string others;
  std::string first_message;
  for (const Json& id : items_at(check, "findings")) {
    for (const Json& finding : items_at(report, "findings")) {
      if (text_at(finding, "id") != value_with_unit(id, "")) continue;
      const bool fails = rank_of(text_at(finding, "severity")) >= fail_on;
      if (fails && first_message.empty()) first_message = text_at(finding, "message");
      (fails ? failures : others) += whole_text(finding);
    }
  }
  if (!failures.empty()) {
    ++counts.failures;
    const pugi::xml_node failure = test.append_child("failure");
    set(failure, "message", first_message);
    set(failure, "type", text_at(check, "code"));
    failure.text() = xml_text(failures).c_str();
  }
  if (!others.empty()) test.append_child("system-out").text() = xml_text(others).c_str();
}

void add_check(pugi::xml_node suite, const Json& report, const Json& check, SuiteCounts& counts) {
  ++counts.tests;
  pugi::xml_node test = suite.append_child("testcase");
  const std::string id = text_at(check, "id");
  const std::string code = text_at(check, "code");
  set(test, "classname", "dlprobe." + id.substr(0, id.find('.')));
  set(test, "name", (code.empty() ? "" : code + " ") + text_at(check, "title"));
  const auto seconds = number_at(check, "duration_s");
  set(test, "time", fmt::format("{:.3f}", seconds.value_or(0)));
  const std::string status = text_at(check, "status");
  const std::string why = text_at(check, "text");
  if (status == "incomplete") {
    ++counts.errors;
    const pugi::xml_node error = test.append_child("error");
    set(error, "message", why.empty() ? "could not be checked" : why);
    set(error, "type", "incomplete");
  } else if (status == "skipped") {
    ++counts.skipped;
    set(test.append_child("skipped"), "message", why);
  }
  add_findings(test, report, check, counts);
}

std::string gaps_text(const Json& report) {
  std::string text;
  for (const Json& gap : items_at(report, "limitations"))
    text += fmt::format("could not be seen: {}: {}\n", text_at(gap, "what"), text_at(gap, "why"));
  return text;
}

}  // namespace

std::string render_junit(const Json& report) {
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  declaration.append_attribute("version") = "1.0";
  declaration.append_attribute("encoding") = "UTF-8";
  pugi::xml_node suites = document.append_child("testsuites");
  pugi::xml_node suite = suites.append_child("testsuite");
  const Json& invocation = object_at(report, "invocation");
  SuiteCounts counts;
  pugi::xml_node properties = suite.append_child("properties");
  const auto property = [&](const char* name, const std::string& value) {
    const pugi::xml_node node = properties.append_child("property");
    set(node, "name", name);
    set(node, "value", value);
  };
  property("verdict", std::string(to_string(verdict_of(report))));
  property("headline", text_at(object_at(report, "summary"), "headline"));
  property("dlprobe", text_at(object_at(report, "tool"), "version"));
  for (const Json& check : items_at(report, "checks"))
    add_check(suite, report, check, counts);
  if (const std::string gaps = gaps_text(report); !gaps.empty())
    suite.append_child("system-out").text() = xml_text(gaps).c_str();
  set(suite, "name", "dlprobe " + text_at(invocation, "probe"));
  // xs:dateTime without a zone, as the schemas of JUnit want it; it is UTC.
  set(suite, "timestamp", text_at(invocation, "started_at").substr(0, 19));
  set(suite, "hostname", text_at(object_at(report, "host"), "name"));
  set(suite, "tests", std::to_string(counts.tests));
  set(suite, "failures", std::to_string(counts.failures));
  set(suite, "errors", std::to_string(counts.errors));
  set(suite, "skipped", std::to_string(counts.skipped));
  set(suite, "time", fmt::format("{:.3f}", number_at(invocation, "duration_s").value_or(0)));
  std::ostringstream out;
  document.save(out, "  ", pugi::format_default, pugi::encoding_utf8);
  return std::move(out).str();
}

}  // namespace dlprobe
