#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "reports/text_layout.h"
#include "reports/text_limitations.h"
#include "reports/text_resources.h"
#include "reports/text_tables.h"
#include "reports/text_tune.h"
#include "reports/text_waits.h"

namespace dlprobe {
namespace {

constexpr size_t kMostEvidence = 8;

struct VerdictWords {
  std::string_view lead;
  Style style;
};

VerdictWords words_of(OverallVerdict verdict) {
  switch (verdict) {
    case OverallVerdict::kPass:
      return {"PASS  ", Style::kGreen};
    case OverallVerdict::kWarn:
      return {"WARN  ", Style::kYellow};
    case OverallVerdict::kFail:
      return {"FAIL  ", Style::kRed};
    case OverallVerdict::kIncomplete:
      break;
  }
  return {"INCOMPLETE  ", Style::kYellow};
}

Style style_of(std::string_view severity) {
  if (severity == "error") return Style::kRed;
  return severity == "warning" ? Style::kYellow : Style::kBold;
}

// "21:47:44.120" of "2026-11-20T21:47:44.120Z".
std::string clock_time(const std::string& utc) {
  return utc.size() == 24 ? utc.substr(11, 12) : utc;
}

void write_evidence(TextPage& page, const Json& finding) {
  const Json& evidence = items_at(finding, "evidence");
  const bool is_all = page.options().verbosity > 0 || evidence.size() <= kMostEvidence;
  const size_t shown = is_all ? evidence.size() : kMostEvidence;
  for (size_t i = 0; i < shown; ++i) {
    const Json& fact = evidence[i];
    const Json value = fact.is_object() ? fact.value("value", Json()) : Json();
    std::string text = fmt::format("{} = {}", text_at(fact, "name"),
                                   value_with_unit(value, text_at(fact, "unit")));
    const std::string threshold = text_at(fact, "threshold");
    if (!threshold.empty()) text += fmt::format("  ({})", threshold);
    text += "  [" + text_at(fact, "source");
    const std::string at = text_at(fact, "seen_at");
    if (!at.empty()) text += ", " + clock_time(at);
    page.paragraph(i == 0 ? "  Proof      " : "             ", text + "]");
  }
  if (shown < evidence.size()) {
    page.paragraph("             ", fmt::format("and {} more, with -v", evidence.size() - shown));
  }
}

// Of a merged report.
void write_nodes_of(TextPage& page, const Json& finding) {
  constexpr size_t kLongest = 160;
  std::string nodes = text_at(finding, "nodes");
  if (nodes.empty()) return;
  if (nodes.size() > kLongest && page.options().verbosity <= 0)
    nodes = nodes.substr(0, nodes.rfind(',', kLongest)) + ", and more with -v";
  page.paragraph(
      "  On         ",
      fmt::format("{} ({})", nodes,
                  counted(static_cast<uint64_t>(integer_at(finding, "occurrences")), "node")));
}

void write_alternatives(TextPage& page, const Json& finding) {
  std::string_view lead = "  Ruled out  ";
  for (const Json& alternative : items_at(finding, "alternatives")) {
    page.paragraph(lead, fmt::format("{}: {}", text_at(alternative, "cause"),
                                     text_at(alternative, "why_not")));
    lead = "             ";
  }
}

// Remedies that set the same were tried at once.
void write_confirmation(TextPage& page, const Json& remedy, std::set<std::string>& told) {
  const std::string text = text_at(object_at(remedy, "confirmed"), "text");
  if (text.empty()) return;
  const bool is_new = told.insert(text).second;
  page.paragraph("               ",
                 is_new ? text : text.substr(0, text.find(':')) + ": the same as above");
}

// A line for a shell, or of a program, which keeps its indentation.
void write_command(TextPage& page, const std::string& line, bool is_code) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string lead = is_code ? std::string(indent, ' ') : "$ ";
  page.paragraph("               " + lead, line.substr(is_code ? indent : 0));
}

void write_remedies(TextPage& page, const Json& finding) {
  std::set<std::string> told;
  std::string_view lead = "  To do      ";
  for (const Json& remedy : items_at(finding, "remediation")) {
    std::string places;
    for (const Json& place : items_at(remedy, "applies_to")) {
      places += (places.empty() ? "" : ", ") + value_with_unit(place, "");
    }
    page.paragraph(lead, text_at(remedy, "title") + (places.empty() ? "" : " [" + places + "]"));
    lead = "             ";
    const bool is_code = std::ranges::count(items_at(remedy, "applies_to"), Json("code")) > 0;
    for (const Json& command : items_at(remedy, "commands"))
      write_command(page, value_with_unit(command, ""), is_code);
    const std::string verify = text_at(remedy, "verify");
    if (!verify.empty()) page.paragraph("               then check with: ", verify);
    write_confirmation(page, remedy, told);
  }
}

void write_finding(TextPage& page, const Json& finding, size_t index, std::string_view headline) {
  page.blank_line();
  const std::string severity = text_at(finding, "severity");
  const std::string consequence = text_at(finding, "consequence_of");
  page.paragraph(
      fmt::format("{}. {} {}", index + 1, text_at(finding, "code"), text_at(finding, "name")), "",
      style_of(severity));
  page.paragraph("  ", fmt::format("{} ({}, {}{})", text_at(finding, "title"), severity,
                                   text_at(finding, "confidence"),
                                   consequence.empty() ? "" : ", a consequence of " + consequence));
  // The verdict line has said it already.
  const std::string message = text_at(finding, "message");
  if (!headline.ends_with(message)) page.paragraph("  ", message);
  write_nodes_of(page, finding);
  write_evidence(page, finding);
  write_alternatives(page, finding);
  write_remedies(page, finding);
}

// What the codes of one hundred are about.
std::string_view field_of(std::string_view code) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kFields = {{
      {"DLP01", "Shared memory"},
      {"DLP02", "Open files"},
      {"DLP03", "Locks, waits and stopped processes"},
      {"DLP04", "How workers are started"},
      {"DLP05", "Memory and the end of processes"},
      {"DLP06", "Libraries that keep threads"},
  }};
  for (const auto& [prefix, field] : kFields) {
    if (code.starts_with(prefix)) return field;
  }
  return "Other causes";
}

// Where several probes ran, the list would be longer than the rest.
void write_check_counts(TextPage& page, const Json& checks) {
  std::map<std::pair<std::string_view, bool>, uint64_t> counts;
  for (const Json& check : checks) {
    const bool is_pass = text_at(check, "status") == "pass";
    ++counts[{field_of(text_at(check, "code")), is_pass}];
  }
  for (const auto& [what, count] : counts) {
    const std::string_view seen = count == 1 ? "not seen" : "none of them seen";
    page.paragraph("  ", fmt::format("{}: {}, {}", what.first, counted(count, "known cause"),
                                     what.second ? seen : "cannot say"));
  }
  page.paragraph("  ", "(each with -v)");
}

Style style_of_check(std::string_view status) {
  if (status == "pass") return Style::kGreen;
  if (status == "fail") return Style::kRed;
  return status == "skipped" ? Style::kDim : Style::kYellow;
}

// A line for each: how it came out, its name, what was seen.
void write_named_checks(TextPage& page, const Json& checks) {
  page.blank_line();
  for (const Json& check : checks) {
    const std::string status = text_at(check, "status");
    page.paragraph(fmt::format("{:<11}", status),
                   text_at(check, "id") + ": " + text_at(check, "text"), style_of_check(status));
  }
}

void write_checks(TextPage& page, const Json& report) {
  constexpr size_t kMost = 10;
  const Json& checks = items_at(report, "checks");
  const std::string probe = text_at(object_at(report, "invocation"), "probe");
  if (probe == "gate" || probe == "merge") return;
  if (checks.empty() || !items_at(report, "findings").empty()) return;
  page.heading("Looked for");
  const bool is_several = text_at(object_at(report, "invocation"), "probe") == "attach";
  if (is_several && checks.size() > kMost && page.options().verbosity == 0) {
    return write_check_counts(page, checks);
  }
  for (const Json& check : checks) {
    const bool is_pass = text_at(check, "status") == "pass";
    page.paragraph(
        fmt::format("  {} {}  ", text_at(check, "code"), is_pass ? "not seen  " : "cannot say"),
        text_at(check, "title"));
  }
}

// Of a merged report: how many nodes said what, and each that did not pass.
void write_nodes(TextPage& page, const Json& report) {
  constexpr size_t kMost = 20;
  const Json& nodes = items_at(report, "nodes");
  const Json& counts = object_at(object_at(report, "summary"), "nodes");
  if (counts.empty()) return;
  std::string text;
  for (const auto& [verdict, count] : counts.items()) {
    if (count != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value_with_unit(count, ""), verdict);
  }
  page.heading("Nodes: " + text);
  size_t shown = 0;
  size_t more = 0;
  for (const Json& node : nodes) {
    const std::string verdict = text_at(node, "verdict");
    if (verdict == "pass" && page.options().verbosity <= 0) continue;
    if (shown == kMost && page.options().verbosity <= 0) {
      ++more;
      continue;
    }
    ++shown;
    page.paragraph(fmt::format("  {}  ", text_at(node, "node")),
                   fmt::format("{}: {}", verdict, text_at(node, "headline")));
  }
  if (more > 0) page.paragraph("  ", fmt::format("and {} more, with -v", more));
  std::map<std::string, std::vector<const Json*>> duplicates;
  for (const Json& each : items_at(report, "duplicates"))
    duplicates[text_at(each, "node")].push_back(&each);
  for (const auto& [node, all] : duplicates) {
    page.paragraph("  ", fmt::format("{} has several reports: {} counts, {}{} not", node,
                                     text_at(*all.back(), "kept"), text_at(*all.front(), "source"),
                                     all.size() > 1 ? fmt::format(" and {} more do", all.size() - 1)
                                                    : " does"));
  }
}

// What a configuration has taken out of the verdict, a line or two for each.
void write_suppressed(TextPage& page, const Json& report) {
  const Json& all = items_at(report, "suppressed");
  if (all.empty()) return;
  page.heading("Suppressed");
  for (const Json& finding : all) {
    page.paragraph(fmt::format("  {} ", text_at(finding, "code")),
                   fmt::format("{}: {}", text_at(finding, "name"), text_at(finding, "message")));
    page.paragraph("          ", "because: " + suppression_text(finding));
  }
}

void write_footer(TextPage& page, const Json& report) {
  const Json& host = object_at(report, "host");
  const Json& invocation = object_at(report, "invocation");
  page.blank_line();
  std::string where = text_at(host, "name");
  if (host.contains("kernel"))
    where += fmt::format(", {}, Linux {}", text_at(host, "os"), text_at(host, "kernel"));
  page.paragraph("",
                 fmt::format("{}; {}; dlprobe {}", where, text_at(invocation, "started_at"),
                             text_at(object_at(report, "tool"), "version")),
                 Style::kDim);
  const Json& findings = items_at(report, "findings");
  if (findings.empty()) return;
  page.paragraph("",
                 fmt::format("More: dlprobe explain {}. To keep the evidence: --record FILE, and "
                             "dlprobe replay FILE on any machine.",
                             text_at(findings.front(), "code")));
}

// Whether the report is about what the probe looks at: it was asked for, or something was found. Of
// a report of several probes, what nothing was found in is left out.
bool is_about(const Json& report, std::string_view probe,
              std::initializer_list<std::string_view> codes) {
  if (text_at(object_at(report, "invocation"), "probe") == probe) return true;
  return std::ranges::any_of(items_at(report, "findings"), [&](const Json& finding) {
    const std::string code = text_at(finding, "code");
    return std::ranges::any_of(codes,
                               [&](std::string_view each) { return code.starts_with(each); });
  });
}

}  // namespace

std::string render_text(const Json& report, const TextOptions& options) {
  const VerdictWords words = words_of(verdict_of(report));
  const std::string headline = text_at(object_at(report, "summary"), "headline");
  TextPage page(options);
  if (options.verbosity < 0) return std::string(words.lead) + headline + "\n";
  page.paragraph(words.lead, headline, words.style);
  const bool has_table = has_activities(report);
  if (text_at(object_at(report, "invocation"), "probe") == "gate")
    write_named_checks(page, items_at(report, "checks"));
  write_chain(page, report);
  if (has_table) write_processes(page, report);
  const Json& findings = items_at(report, "findings");
  for (size_t i = 0; i < findings.size(); ++i)
    write_finding(page, findings[i], i, headline);
  write_suppressed(page, report);
  write_nodes(page, report);
  write_checks(page, report);
  write_tune(page, report);
  // Its runs are many, and all in its own table.
  const bool is_sweep = !object_at(report, "tune").empty() && options.verbosity <= 0;
  if (is_sweep) {
    write_limitations(page, report);
    write_footer(page, report);
    return std::move(page).take();
  }
  if (options.verbosity > 0 || is_about(report, "shm", {"DLP01"})) {
    write_runs(page, report);
    write_ledger(page, report);
  } else {
    write_runs_by_finding(page, report);
  }
  if (is_about(report, "memory",
               {"DLP0501", "DLP0502", "DLP0504", "DLP0505", "DLP0506", "DLP0507", "DLP0508"})) {
    write_memory(page, report);
  }
  if (is_about(report, "fd", {"DLP02"})) write_descriptors(page, report);
  if (!has_table) write_processes(page, report);
  write_limitations(page, report);
  write_footer(page, report);
  return std::move(page).take();
}

}  // namespace dlprobe
