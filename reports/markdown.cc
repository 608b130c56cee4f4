#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/format.h"
#include "reports/frame_text.h"
#include "reports/markup.h"
#include "reports/text_layout.h"

namespace dlprobe {
namespace {

constexpr size_t kMostProcesses = 50;

std::string heading_of(OverallVerdict verdict) {
  switch (verdict) {
    case OverallVerdict::kPass:
      return "PASS";
    case OverallVerdict::kWarn:
      return "WARN";
    case OverallVerdict::kFail:
      return "FAIL";
    case OverallVerdict::kIncomplete:
      break;
  }
  return "INCOMPLETE";
}

std::string row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells)
    line += " " + cell + " |";
  return line + "\n";
}

std::string head(const std::vector<std::string>& names) {
  std::string rule = "|";
  for (size_t i = 0; i < names.size(); ++i)
    rule += " --- |";
  return row(names) + rule + "\n";
}

std::string evidence_table(const Json& finding) {
  const Json& evidence = items_at(finding, "evidence");
  if (evidence.empty()) return "";
  std::string out = head({"Proof", "Value", "Held against", "Source"});
  for (const Json& fact : evidence) {
    const Json value = fact.is_object() ? fact.value("value", Json()) : Json();
    out += row({escape_markdown(text_at(fact, "name")),
                markdown_cell(value_with_unit(value, text_at(fact, "unit"))),
                escape_markdown(text_at(fact, "threshold")),
                escape_markdown(text_at(fact, "source"))});
  }
  return out + "\n";
}

std::string remedies(const Json& finding) {
  const Json& all = items_at(finding, "remediation");
  if (all.empty()) return "";
  std::string out = "**To do**\n\n";
  for (const Json& remedy : all) {
    std::string places;
    for (const Json& place : items_at(remedy, "applies_to"))
      places += (places.empty() ? "" : ", ") + value_with_unit(place, "");
    out += "- " + escape_markdown(text_at(remedy, "title"));
    out += (places.empty() ? "" : " (" + escape_markdown(places) + ")") + "\n";
    const Json& commands = items_at(remedy, "commands");
    if (!commands.empty()) out += "\n  ```\n";
    for (const Json& command : commands)
      out += "  " + value_with_unit(command, "") + "\n";
    if (!commands.empty()) out += "  ```\n";
    const std::string verify = text_at(remedy, "verify");
    if (!verify.empty()) out += "  Check with " + markdown_code(verify) + ".\n";
    const std::string confirmed = text_at(object_at(remedy, "confirmed"), "text");
    if (!confirmed.empty()) out += "  " + escape_markdown(confirmed) + "\n";
  }
  return out + "\n";
}

std::string ruled_out(const Json& finding) {
  std::string out;
  for (const Json& alternative : items_at(finding, "alternatives")) {
    out += fmt::format("- {}: {}\n", escape_markdown(text_at(alternative, "cause")),
                       escape_markdown(text_at(alternative, "why_not")));
  }
  return out.empty() ? "" : "**Ruled out**\n\n" + out + "\n";
}

std::string nodes_line(const Json& finding) {
  const std::string nodes = text_at(finding, "nodes");
  return nodes.empty() ? "" : "On " + markdown_code(nodes) + "\n\n";
}

std::string finding_part(const Json& finding, size_t index) {
  const std::string consequence = text_at(finding, "consequence_of");
  std::string out = fmt::format("## {}. {} {}\n\n{} ({}, {}{})\n\n{}\n\n", index + 1,
                                escape_markdown(text_at(finding, "code")),
                                escape_markdown(text_at(finding, "name")),
                                escape_markdown(text_at(finding, "title")),
                                text_at(finding, "severity"), text_at(finding, "confidence"),
                                consequence.empty() ? "" : ", a consequence of " + consequence,
                                escape_markdown(text_at(finding, "message")));
  for (const Json& place : items_at(finding, "locations")) {
    out += fmt::format(
        "- {} {}\n",
        markdown_code(fmt::format("{}:{}", text_at(place, "path"), integer_at(place, "line"))),
        escape_markdown(text_at(place, "what")));
  }
  if (!items_at(finding, "locations").empty()) out += "\n";
  out += nodes_line(finding);
  return out + evidence_table(finding) + remedies(finding) + ruled_out(finding);
}

// The chain to the root cause, one arrow for each step.
std::string chain(const Json& graph) {
  const Json& ids = items_at(graph, "chain");
  if (ids.size() < 2) return "";
  std::string out = "## Who waits for whom\n\n```mermaid\nflowchart LR\n";
  size_t number = 0;
  for (const Json& id : ids) {
    const auto& nodes = items_at(graph, "nodes");
    const auto node = std::ranges::find_if(
        nodes, [&](const Json& each) { return text_at(each, "id") == value_with_unit(id, ""); });
    const std::string label =
        node == nodes.end() ? value_with_unit(id, "") : text_at(*node, "label");
    // In quotes all but the quote is text, once entities are written as #...;.
    std::string text;
    for (const char c : label) {
      if (c == '"' || c == '<' || c == '>' || c == '&' || c == '#' || c == '`') {
        text += fmt::format("#{};", static_cast<int>(c));
      } else {
        text += c;
      }
    }
    out += fmt::format("  n{}[\"{}\"]\n", number, text);
    if (number > 0) out += fmt::format("  n{} --> n{}\n", number - 1, number);
    ++number;
  }
  return out + "```\n\n";
}

std::string processes(const Json& report) {
  const Json& all = items_at(report, "processes");
  if (all.empty()) return "";
  std::string out =
      "## Processes\n\n" + head({"Role", "pid", "Command", "What it does, or its end"});
  size_t shown = 0;
  for (const Json& process : all) {
    if (shown++ == kMostProcesses) break;
    const std::string ended = text_at(object_at(process, "exit"), "text");
    out += row({escape_markdown(text_at(process, "role")),
                std::to_string(integer_at(process, "pid")), markdown_cell(text_at(process, "comm")),
                escape_markdown(ended.empty() ? text_at(process, "activity") : ended)});
  }
  if (all.size() > kMostProcesses)
    out += fmt::format("\nand {} more\n", all.size() - kMostProcesses);
  return out + "\n";
}

// Of a merged report; those that passed are counted alone.
std::string nodes(const Json& report) {
  constexpr size_t kMost = 50;
  std::string rows;
  size_t passed = 0;
  size_t more = 0;
  size_t shown = 0;
  for (const Json& node : items_at(report, "nodes")) {
    const std::string verdict = text_at(node, "verdict");
    if (verdict == "pass") {
      ++passed;
    } else if (shown == kMost) {
      ++more;
    } else {
      ++shown;
      rows += row({markdown_cell(text_at(node, "node")), verdict,
                   escape_markdown(text_at(node, "headline"))});
    }
  }
  if (items_at(report, "nodes").empty()) return "";
  std::string out = fmt::format("## Nodes\n\n{} passed\n\n", passed);
  if (!rows.empty()) out += head({"Node", "Verdict", "Headline"}) + rows + "\n";
  if (more > 0) out += fmt::format("and {} more\n\n", more);
  return out;
}

std::string suppressed(const Json& report) {
  std::string out;
  for (const Json& finding : items_at(report, "suppressed")) {
    out += fmt::format("- {} {}: {} Because: {}\n", escape_markdown(text_at(finding, "code")),
                       escape_markdown(text_at(finding, "name")),
                       escape_markdown(text_at(finding, "message")),
                       escape_markdown(suppression_text(finding)));
  }
  return out.empty() ? "" : "## Suppressed\n\n" + out + "\n";
}

std::string limitations(const Json& report) {
  std::string out;
  for (const Json& gap : items_at(report, "limitations")) {
    const std::string effect = text_at(gap, "effect");
    out += fmt::format("- {}: {}{}\n", escape_markdown(text_at(gap, "what")),
                       escape_markdown(text_at(gap, "why")),
                       effect.empty() ? "" : " (" + escape_markdown(effect) + ")");
  }
  return out.empty() ? "" : "## What could not be seen\n\n" + out + "\n";
}

std::string checks(const Json& report) {
  std::string out;
  for (const Json& check : items_at(report, "checks")) {
    out += row({escape_markdown(text_at(check, "status")), escape_markdown(text_at(check, "code")),
                escape_markdown(text_at(check, "title"))});
  }
  return out.empty()
             ? ""
             : "## Checks\n\n" + head({"Result", "Code", "What was looked for"}) + out + "\n";
}

}  // namespace

std::string render_markdown(const Json& report) {
  const Json& host = object_at(report, "host");
  const Json& invocation = object_at(report, "invocation");
  std::string out = fmt::format("# {}: {}\n\n", heading_of(verdict_of(report)),
                                escape_markdown(text_at(object_at(report, "summary"), "headline")));
  out += escape_markdown(text_at(host, "name"));
  if (host.contains("kernel"))
    out += fmt::format(", {}, Linux {}", escape_markdown(text_at(host, "os")),
                       escape_markdown(text_at(host, "kernel")));
  out += fmt::format("; {}; dlprobe {}\n\n", text_at(invocation, "started_at"),
                     escape_markdown(text_at(object_at(report, "tool"), "version")));
  const Json& findings = items_at(report, "findings");
  for (size_t i = 0; i < findings.size(); ++i)
    out += finding_part(findings[i], i);
  out += chain(object_at(report, "wait_graph"));
  out +=
      suppressed(report) + nodes(report) + processes(report) + checks(report) + limitations(report);
  out.erase(out.find_last_not_of('\n') + 1);
  return out + "\n";
}

}  // namespace dlprobe
