// The findings: what they are, where, the proof, what was ruled out, what to do.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

constexpr size_t kMostEvidence = 8;
constexpr int kFieldColumns = 11;

Mark mark_of_severity(std::string_view severity) {
  if (severity == "error") return Mark::kFail;
  return severity == "warning" ? Mark::kWarn : Mark::kStrong;
}

Mark mark_of_verdict(std::string_view verdict) {
  if (verdict == "pass") return Mark::kPass;
  if (verdict == "fail") return Mark::kFail;
  return verdict == "warn" ? Mark::kWarn : Mark::kUnsure;
}

void add_field(Blocks& blocks, const char* name, Blocks content) {
  if (content.empty()) return;
  blocks.add(Field{.name = spans(name), .columns = kFieldColumns, .blocks = std::move(content)});
}

Blocks proof_of(const Json& finding, bool is_all) {
  const Json& evidence = items_at(finding, "evidence");
  Table table = {.columns = {{.head = "Fact"},
                             {.head = "Value", .before = " = "},
                             {.head = "Held against", .before = "  (", .after = ")"},
                             {.head = "Source", .before = "  [", .after = "]"}},
                 .keep = 2,
                 .is_lines = true};
  const size_t shown = is_all ? evidence.size() : std::min(evidence.size(), kMostEvidence);
  for (size_t i = 0; i < shown; ++i) {
    const Json& fact = evidence[i];
    const Json value = fact.is_object() ? fact.value("value", Json()) : Json();
    const std::string at = text_at(fact, "seen_at");
    table.add(text_at(fact, "name"), code(value_with_unit(value, text_at(fact, "unit"))),
              text_at(fact, "threshold"),
              spans(text_at(fact, "source"), at.empty() ? "" : ", ",
                    Span{.text = at, .mark = Mark::kTime}));
  }
  Blocks blocks;
  if (shown > 0) blocks.add(std::move(table));
  if (shown < evidence.size())
    blocks.say(fmt::format("and {} more, with -v", evidence.size() - shown));
  return blocks;
}

Blocks ruled_out_of(const Json& finding) {
  List list;
  for (const Json& each : items_at(finding, "alternatives"))
    list.add(strong(text_at(each, "cause")), ": " + text_at(each, "why_not"));
  Blocks blocks;
  if (!list.items.empty()) blocks.add(std::move(list));
  return blocks;
}

void add_remedy(List& list, const Json& remedy, std::set<std::string>& told) {
  const Json& places = items_at(remedy, "applies_to");
  Item& item = list.add(
      text_at(remedy, "title"),
      Span{.text = places.empty() ? "" : " [" + joined(places) + "]", .mark = Mark::kQuiet});
  Code commands = {.lines = {}, .is_shell = std::ranges::count(places, Json("code")) == 0};
  for (const Json& command : items_at(remedy, "commands"))
    commands.lines.push_back(value_with_unit(command, ""));
  if (!commands.lines.empty()) item.blocks.add(std::move(commands));
  const std::string verify = text_at(remedy, "verify");
  if (!verify.empty())
    item.blocks.add(Paragraph{.text = spans(code(verify)), .lead = "then check with:"});
  std::string confirmed = text_at(object_at(remedy, "confirmed"), "text");
  if (confirmed.empty()) return;
  // Remedies that set the same were tried at once.
  if (!told.insert(confirmed).second)
    confirmed = confirmed.substr(0, confirmed.find(':')) + ": the same as above";
  item.blocks.say(strong(confirmed));
}

Blocks remedies_of(const Json& finding) {
  std::set<std::string> told;
  List list = {.kind = ListKind::kOrdered};
  for (const Json& remedy : items_at(finding, "remediation"))
    add_remedy(list, remedy, told);
  Blocks blocks;
  if (!list.items.empty()) blocks.add(std::move(list));
  return blocks;
}

// Of a merged report.
void add_nodes(Blocks& blocks, const Json& finding, bool is_all) {
  constexpr size_t kLongest = 160;
  std::string nodes = text_at(finding, "nodes");
  if (nodes.empty()) return;
  if (nodes.size() > kLongest && !is_all)
    nodes = nodes.substr(0, nodes.rfind(',', kLongest)) + ", and more with -v";
  const auto count = static_cast<uint64_t>(integer_at(finding, "occurrences"));
  blocks.add(Paragraph{.text = spans(nodes, " (" + counted(count, "node") + ")"),
                       .lead = "On",
                       .lead_columns = kFieldColumns});
}

// On a terminal the message names them.
void add_places(Blocks& blocks, const Json& finding) {
  List list;
  for (const Json& place : items_at(finding, "locations")) {
    const auto line = number_at(place, "line");
    list.add(code(text_at(place, "path") + (line ? fmt::format(":{:.0f}", *line) : "")),
             " " + text_at(place, "what"));
  }
  if (!list.items.empty()) blocks.add(std::move(list), Readers::kPages);
}

Card card_of(const Json& finding, size_t index, std::string_view headline, bool is_all) {
  const std::string severity = text_at(finding, "severity");
  const std::string consequence = text_at(finding, "consequence_of");
  const Mark mark = mark_of_severity(severity);
  const std::string name =
      fmt::format("{}. {} {}", index + 1, text_at(finding, "code"), text_at(finding, "name"));
  Card card = {.title = spans(Span{.text = name, .mark = mark}),
               .id = fmt::format("finding-{}", index + 1)};
  card.blocks.say(text_at(finding, "title") + " (", Span{.text = severity, .mark = mark},
                  fmt::format(", {}{})", text_at(finding, "confidence"),
                              consequence.empty() ? "" : ", a consequence of " + consequence));
  // The verdict has said it already.
  const std::string message = text_at(finding, "message");
  if (!headline.ends_with(message)) card.blocks.say(message);
  add_nodes(card.blocks, finding, is_all);
  add_places(card.blocks, finding);
  add_field(card.blocks, "Proof", proof_of(finding, is_all));
  add_field(card.blocks, "Ruled out", ruled_out_of(finding));
  add_field(card.blocks, "To do", remedies_of(finding));
  return card;
}

// What no report counts of, for a page: a terminal is told with what could not be seen.
Table absent_nodes(const Json& report) {
  Table table = table_of({"Node", "Report", "What is wrong with it"}, 3, 1);
  for (const Json& name : items_at(report, "missing"))
    table.add(value_with_unit(name, ""), "", "no report");
  for (const Json& each : items_at(report, "damaged"))
    table.add("", text_at(each, "source"), text_at(each, "why"));
  return table;
}

void add_duplicates(Blocks& blocks, const Json& report) {
  std::map<std::string, std::vector<const Json*>> duplicates;
  for (const Json& each : items_at(report, "duplicates"))
    duplicates[text_at(each, "node")].push_back(&each);
  for (const auto& [node, all] : duplicates) {
    blocks.say(
        fmt::format("{} has several reports: {} counts, {}{} not", node,
                    text_at(*all.back(), "kept"), text_at(*all.front(), "source"),
                    all.size() > 1 ? fmt::format(" and {} more do", all.size() - 1) : " does"));
  }
}

std::string counts_text(const Json& counts) {
  std::string text;
  for (const auto& [verdict, count] : counts.items()) {
    if (count != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", value_with_unit(count, ""), verdict);
  }
  return text;
}

}  // namespace

Section findings_of(const Json& report, bool is_all) {
  Section section = {.id = "cause", .title = "Cause, and what to do", .is_titled_in_text = false};
  const std::string headline = text_at(object_at(report, "summary"), "headline");
  const Json& all = items_at(report, "findings");
  for (size_t i = 0; i < all.size(); ++i)
    section.blocks.add(card_of(all[i], i, headline, is_all));
  return section;
}

Section suppressed_of(const Json& report) {
  Section section = {.id = "suppressed", .title = "Suppressed"};
  Table table = {.columns = {{.head = "Code", .lead = 8}, {.head = "What was seen"}},
                 .keep = 2,
                 .is_lines = true};
  for (const Json& finding : items_at(report, "suppressed")) {
    table.add(text_at(finding, "code"),
              spans(text_at(finding, "name") + ": " + text_at(finding, "message"), new_line(),
                    "because: " + suppression_text(finding)));
  }
  if (!table.rows.empty()) section.blocks.add(std::move(table));
  return section;
}

Section nodes_of(const Json& report, bool is_all) {
  constexpr size_t kMost = 20;
  const Json& counts = object_at(object_at(report, "summary"), "nodes");
  Section section = {.id = "nodes", .title = "Nodes: " + counts_text(counts)};
  if (counts.empty()) return section;
  Table table = {.columns = {{.head = "Node", .lead = Column::kOwnWidth},
                             {.head = "Rank", .readers = Readers::kPages},
                             {.head = "Verdict", .after = ": "},
                             {.head = "Headline"},
                             {.head = "Report", .readers = Readers::kPages}},
                 .is_lines = true};
  size_t more = 0;
  for (const Json& node : items_at(report, "nodes")) {
    const std::string verdict = text_at(node, "verdict");
    if (verdict == "pass" && !is_all) continue;
    if (table.rows.size() == kMost && !is_all) {
      ++more;
      continue;
    }
    table.add(text_at(node, "node"), text_at(node, "rank"),
              Span{.text = verdict, .mark = mark_of_verdict(verdict)}, text_at(node, "headline"),
              text_at(node, "source"));
  }
  section.blocks.add(std::move(table));
  section.blocks.add(absent_nodes(report), Readers::kPages);
  if (more > 0) section.blocks.say(fmt::format("and {} more, with -v", more));
  add_duplicates(section.blocks, report);
  return section;
}

}  // namespace dlprobe::document
