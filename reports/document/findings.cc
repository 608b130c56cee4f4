// The findings: what they are, where, the proof, what was ruled out, what to do.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

constexpr int kFieldColumns = 11;

Mark mark_of_severity(Severity severity) {
  if (severity == Severity::kError) return Mark::kFail;
  return severity == Severity::kWarning ? Mark::kWarn : Mark::kStrong;
}

Mark mark_of_verdict(OverallVerdict verdict) {
  if (verdict == OverallVerdict::kPass) return Mark::kPass;
  if (verdict == OverallVerdict::kFail) return Mark::kFail;
  return verdict == OverallVerdict::kWarn ? Mark::kWarn : Mark::kUnsure;
}

void add_field(Blocks& blocks, const char* name, Blocks content) {
  if (content.empty()) return;
  blocks.add(Field{.name = spans(name), .columns = kFieldColumns, .blocks = std::move(content)});
}

Blocks proof_of(const report::Finding& finding) {
  Table table = {.columns = {{.head = "Fact"},
                             {.head = "Value", .before = " = "},
                             {.head = "Held against", .before = "  (", .after = ")"},
                             {.head = "Source", .before = "  [", .after = "]"}},
                 .keep = 2,
                 .is_lines = true};
  for (const report::Evidence& fact : finding.evidence) {
    const std::string at = fact.seen ? shown(fact.seen->at) : "";
    table.add(
        shown(fact.name), code(value_text(fact)), shown(fact.threshold),
        spans(shown(fact.source), at.empty() ? "" : ", ", Span{.text = at, .mark = Mark::kTime}));
  }
  Blocks blocks;
  if (!table.rows.empty()) blocks.add(std::move(table));
  return blocks;
}

Blocks ruled_out_of(const report::Finding& finding) {
  List list;
  for (const report::Alternative& each : finding.alternatives)
    list.add(strong(shown(each.cause)), ": " + shown(each.why_not));
  Blocks blocks;
  if (!list.items.empty()) blocks.add(std::move(list));
  return blocks;
}

// The pid of the job where dlprobe looked at one that ran: one that it started has ended.
std::string with_pid(std::string command, const report::Subject& subject) {
  constexpr std::string_view kPlace = "--pid PID";
  const std::optional<int64_t> pid = subject.trainer_pid ? subject.trainer_pid : subject.asked_pid;
  const size_t at = command.find(kPlace);
  if (subject.kind != report::SubjectOfReport::kPid || !pid || at == std::string::npos)
    return command;
  return command.replace(at, kPlace.size(), fmt::format("--pid {}", *pid));
}

void add_remedy(List& list, const report::Remedy& remedy, const report::Subject& subject,
                std::set<std::string>& told) {
  const std::vector<std::string>& places = remedy.applies_to;
  Item& item = list.add(
      shown(remedy.title),
      Span{.text = places.empty() ? "" : " [" + joined(places) + "]", .mark = Mark::kQuiet});
  Code commands = {.is_shell = std::ranges::count(places, "code") == 0};
  for (const std::string& command : remedy.commands)
    commands.lines.push_back(with_pid(shown(command), subject));
  if (!commands.lines.empty()) item.blocks.add(std::move(commands));
  const std::string verify = with_pid(shown(remedy.verify), subject);
  if (!verify.empty())
    item.blocks.add(Paragraph{.text = spans(code(verify)), .lead = "then check with:"});
  std::string confirmed = remedy.confirmed ? shown(remedy.confirmed->text) : "";
  if (confirmed.empty()) return;
  // Remedies that set the same were tried at once.
  if (!told.insert(confirmed).second)
    confirmed = confirmed.substr(0, confirmed.find(':')) + ": the same as above";
  item.blocks.say(strong(confirmed));
}

Blocks remedies_of(const report::Finding& finding, const report::Subject& subject) {
  std::set<std::string> told;
  List list = {.kind = ListKind::kOrdered};
  for (const report::Remedy& remedy : finding.remediation)
    add_remedy(list, remedy, subject, told);
  Blocks blocks;
  if (!list.items.empty()) blocks.add(std::move(list));
  return blocks;
}

// Of a merged report.
void add_nodes(Blocks& blocks, const report::Finding& finding) {
  const std::string nodes = shown(finding.nodes);
  if (nodes.empty()) return;
  const std::string count = counted(finding.occurrences.value_or(0), "node");
  blocks.add(Paragraph{
      .text = spans(nodes, " (" + count + ")"), .lead = "On", .lead_columns = kFieldColumns});
}

// On a terminal the message names them.
void add_places(Blocks& blocks, const report::Finding& finding) {
  List list;
  for (const report::Location& place : report::items_of(finding.locations)) {
    list.add(code(shown(place.path) + (place.line ? fmt::format(":{}", *place.line) : "")),
             " " + shown(place.what));
  }
  if (!list.items.empty()) blocks.add(std::move(list), Readers::kPages);
}

Card card_of(const report::Report& report, size_t index) {
  const report::Finding& finding = report.findings[index];
  const Mark mark = mark_of_severity(finding.severity);
  const std::string name =
      fmt::format("{}. {} {}", index + 1, shown(finding.code), shown(finding.name));
  Card card = {.title = spans(Span{.text = name, .mark = mark}),
               .id = fmt::format("finding-{}", index + 1)};
  const std::string consequence =
      finding.consequence_of ? ", a consequence of " + shown(*finding.consequence_of) : "";
  card.blocks.say(shown(finding.title) + " (", Span{.text = shown(finding.severity), .mark = mark},
                  fmt::format(", {}{})", shown(finding.confidence), consequence));
  // The verdict has said it already.
  const std::string message = shown(finding.message);
  if (!shown(report.summary.headline).contains(message)) card.blocks.say(message);
  add_nodes(card.blocks, finding);
  add_places(card.blocks, finding);
  add_field(card.blocks, "Proof", proof_of(finding));
  add_field(card.blocks, "Ruled out", ruled_out_of(finding));
  add_field(card.blocks, "To do", remedies_of(finding, report.subject));
  return card;
}

// What no report counts of, for a page: a terminal is told with what could not be seen.
Table absent_nodes(const report::Cluster& cluster) {
  Table table = table_of({"Node", "Report", "What is wrong with it"}, 3, 1);
  for (const std::string& name : cluster.missing)
    table.add(shown(name), "", "no report");
  for (const report::Damaged& each : cluster.damaged)
    table.add("", shown(each.source), shown(each.why));
  return table;
}

void add_duplicates(Blocks& blocks, const report::Cluster& cluster) {
  std::map<std::string, std::vector<const report::Duplicate*>> duplicates;
  for (const report::Duplicate& each : cluster.duplicates)
    duplicates[shown(each.node)].push_back(&each);
  for (const auto& [node, all] : duplicates) {
    blocks.say(
        fmt::format("{} has several reports: {} counts, {}{} not", node, shown(all.back()->kept),
                    shown(all.front()->source),
                    all.size() > 1 ? fmt::format(" and {} more do", all.size() - 1) : " does"));
  }
}

std::string counts_text(const report::NodeCounts& counts) {
  std::string text;
  const auto add = [&](std::string_view key, uint64_t report::NodeCounts::* member) {
    const uint64_t count = counts.*member;
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, key);
  };
  list_fields(add, Of<report::NodeCounts>{});
  return text;
}

}  // namespace

Section findings_of(const report::Report& report) {
  Section section = {.id = "cause", .title = "Cause, and what to do", .is_titled_in_text = false};
  for (size_t i = 0; i < report.findings.size(); ++i)
    section.blocks.add(card_of(report, i));
  return section;
}

Section suppressed_of(const report::Report& report) {
  Section section = {.id = "suppressed", .title = "Suppressed"};
  Table table = {.columns = {{.head = "Code", .lead = 8}, {.head = "What was seen"}},
                 .keep = 2,
                 .is_lines = true};
  for (const report::Finding& finding : report::items_of(report.suppressed)) {
    const std::string why = finding.suppressed ? suppression_text(*finding.suppressed) : "";
    table.add(shown(finding.code), spans(shown(finding.name) + ": " + shown(finding.message),
                                         new_line(), "because: " + why));
  }
  if (!table.rows.empty()) section.blocks.add(std::move(table));
  return section;
}

Section nodes_of(const report::Cluster& cluster) {
  Section section = {.id = "nodes", .title = "Nodes: " + counts_text(cluster.summary.nodes)};
  Table table = {.columns = {{.head = "Node", .lead = Column::kOwnWidth},
                             {.head = "Rank", .readers = Readers::kPages},
                             {.head = "Verdict", .after = ": "},
                             {.head = "Headline"},
                             {.head = "Report", .readers = Readers::kPages}},
                 .is_lines = true};
  for (const report::Node& node : cluster.nodes) {
    table.add(shown(node.node), shown(node.rank),
              Span{.text = shown(node.verdict), .mark = mark_of_verdict(node.verdict)},
              shown(node.headline), shown(node.source));
  }
  section.blocks.add(std::move(table));
  section.blocks.add(absent_nodes(cluster), Readers::kPages);
  add_duplicates(section.blocks, cluster);
  return section;
}

}  // namespace dlprobe::document
