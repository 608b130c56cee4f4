// The document as GitHub flavoured Markdown without HTML.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "reports/document/builders.h"
#include "reports/document/markup.h"
#include "reports/document/render.h"

namespace dlprobe {
namespace document {
namespace {

constexpr size_t kMostRowsOfMarkdown = 50;

std::string markdown_of(const Spans& spans, bool is_cell = false) {
  std::string text;
  for (const Span& span : spans) {
    switch (span.mark) {
      case Mark::kCode:
        text += is_cell ? markdown_cell(span.text) : markdown_code(span.text);
        break;
      case Mark::kStrong:
        text += "**" + escape_markdown(span.text) + "**";
        break;
      case Mark::kBreak:
        text += "; ";
        break;
      default:
        text += escape_markdown(span.text);
    }
  }
  return text;
}

// In quotes all but the quote is text, once entities are written as #...;.
std::string mermaid_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("\"<>&#`").contains(c)) {
      result += fmt::format("#{};", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result;
}

// Each line but empty ones.
std::string indented(std::string_view text, size_t columns) {
  std::string result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n') + 1);
    if (line != "\n") result += std::string(columns, ' ');
    result += line;
    text.remove_prefix(line.size());
  }
  return result;
}

std::string blocks_text(const Blocks& blocks, int level);

std::string block_text(const Paragraph& paragraph, int /*level*/) {
  const std::string lead = escape_markdown(paragraph.lead);
  return lead + (lead.empty() ? "" : " ") + markdown_of(paragraph.text) + "\n\n";
}

std::string block_text(const Code& code, int /*level*/) {
  std::string lines;
  size_t most = 2;
  for (const std::string& line : code.lines) {
    lines += line + "\n";
    most = std::max(most, most_backquotes(line));
  }
  const std::string fence(most + 1, '`');
  return fence + "\n" + lines + fence + "\n\n";
}

std::string block_text(const Table& whole, int /*level*/) {
  const Table table = table_for(whole, Readers::kMarkdown);
  if (table.rows.empty()) return "";
  std::string head = "|";
  std::string rule = "|";
  for (const Column& column : table.columns) {
    head += " " + escape_markdown(column.head) + " |";
    rule += column.is_number ? " ---: |" : " --- |";
  }
  std::string text = head + "\n" + rule + "\n";
  for (size_t i = 0; i < std::min(table.rows.size(), kMostRowsOfMarkdown); ++i) {
    text += "|";
    for (const Spans& cell : table.rows[i].cells)
      text += " " + markdown_of(cell, true) + " |";
    text += "\n";
  }
  if (table.rows.size() > kMostRowsOfMarkdown)
    text += fmt::format("\nand {} more\n", table.rows.size() - kMostRowsOfMarkdown);
  return text + "\n";
}

std::string block_text(const List& list, int level) {
  const bool is_ordered = list.kind == ListKind::kOrdered || list.kind == ListKind::kSteps;
  std::string text;
  size_t number = 0;
  for (const Item& item : list.items) {
    const std::string bullet = is_ordered ? fmt::format("{}. ", ++number) : "- ";
    text += bullet + markdown_of(item.text) + "\n";
    const std::string more = blocks_text(item.blocks, level);
    if (!more.empty()) text += "\n" + indented(more, bullet.size());
  }
  return text + (text.ends_with("\n\n") ? "" : "\n");
}

std::string block_text(const Field& field, int level) {
  return "**" + markdown_of(field.name) + "**\n\n" + blocks_text(field.blocks, level);
}

std::string block_text(const Card& card, int level) {
  std::string title;
  for (const Span& span : card.title)
    title += (title.empty() ? "" : " ") + escape_markdown(span.text);
  return std::string(static_cast<size_t>(level), '#') + " " + title + "\n\n" +
         blocks_text(card.blocks, level + 1);
}

std::string block_text(const Graph& graph, int /*level*/) {
  std::string text = "```mermaid\nflowchart LR\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    text += fmt::format("  n{}[\"{}\"]\n", i, mermaid_text(name_of(graph.nodes[i])));
  for (const Graph::Edge& edge : graph.edges) {
    text += fmt::format("  n{} {}|\"{}\"| n{}\n", edge.from, edge.in_chain ? "==>" : "-->",
                        mermaid_text(edge.relation), edge.to);
  }
  return text + "```\n\n";
}

std::string block_text(const Charts& /*charts*/, int /*level*/) {
  return "";
}

std::string block_text(const Grid& /*grid*/, int /*level*/) {
  return "";
}

std::string blocks_text(const Blocks& blocks, int level) {
  std::string text;
  for (const Block& block : blocks) {
    if (!is_for(block.readers, Readers::kMarkdown)) continue;
    text +=
        std::visit([&](const auto& content) { return block_text(content, level); }, block.content);
  }
  return text;
}

}  // namespace
}  // namespace document

std::string render_markdown(const AnyReport& report) {
  const document::Document document = document::document_of(report);
  std::string out =
      fmt::format("# {}: {}\n\n{}\n\n", document.verdict.text, escape_markdown(document.headline),
                  document::markdown_of(document.where));
  for (const document::Section* section :
       document::page_order(document, document::Readers::kMarkdown)) {
    const std::string blocks = document::blocks_text(section->blocks, 3);
    if (!blocks.empty()) out += "## " + escape_markdown(section->title) + "\n\n" + blocks;
  }
  out.erase(out.find_last_not_of('\n') + 1);
  return out + "\n";
}

}  // namespace dlprobe
