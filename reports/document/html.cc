// One page for a person who was not there: the verdict, the cause, the proof and what to do first;
// then what happened when, who waited for whom, and what could not be seen.

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "reports/document/builders.h"
#include "reports/document/html_nodes.h"
#include "reports/document/render.h"

namespace dlprobe {
namespace document {

using pugi::xml_node;

xml_node add_element(xml_node parent, const char* name, Attributes attributes) {
  xml_node node = parent.append_child(name);
  for (const auto& [key, value] : attributes)
    node.append_attribute(key) = value.c_str();
  return node;
}

void add_text(xml_node parent, std::string_view text) {
  parent.append_child(pugi::node_pcdata).set_value(std::string(text).c_str());
}

xml_node add_text_element(xml_node parent, const char* name, std::string_view text,
                          Attributes attributes) {
  const xml_node node = add_element(parent, name, attributes);
  add_text(node, text);
  return node;
}

namespace {

constexpr int kDeepestIndent = 4;
constexpr size_t kMostFrames = 80;
// What a browser opens at once of stacks; the JSON report has all.
constexpr size_t kMostBytes = 1'500'000;

const char* class_of(Mark mark) {
  switch (mark) {
    case Mark::kQuiet:
      return "quiet";
    case Mark::kPass:
      return "pass";
    case Mark::kWarn:
      return "warn";
    case Mark::kFail:
      return "fail";
    case Mark::kUnsure:
      return "incomplete";
    default:
      return "";
  }
}

void add_span(xml_node parent, const Span& span) {
  if (span.mark == Mark::kPlain) return add_text(parent, span.text);
  const char* name = "span";
  if (span.mark == Mark::kStrong) name = "strong";
  if (span.mark == Mark::kCode) name = "code";
  if (span.mark == Mark::kTime) name = "time";
  xml_node node = add_text_element(parent, name, span.text);
  const std::string_view css = class_of(span.mark);
  if (!css.empty()) node.append_attribute("class") = css.data();
  if (span.mark == Mark::kTime) node.append_attribute("datetime") = span.text.c_str();
  if (!span.hint.empty()) node.append_attribute("title") = span.hint.c_str();
}

// A line of several is an element of its own.
void add_spans(xml_node parent, const Spans& spans) {
  const std::vector<Spans> lines = lines_of(spans);
  for (const Spans& line : lines) {
    const xml_node node = lines.size() > 1 ? add_element(parent, "div") : parent;
    for (const Span& span : line)
      add_span(node, span);
  }
}

class HtmlWriter {
 public:
  void write(xml_node parent, const Section& section) {
    const xml_node node = add_element(parent, "section", {{"aria-labelledby", section.id}});
    add_text_element(node, "h2", section.title, {{"id", section.id}});
    write(node, section.blocks);
    if (left_out_ > 0) {
      add_text_element(node, "p", fmt::format("{} more are in the JSON report.", left_out_),
                       {{"class", "quiet"}});
    }
    left_out_ = 0;
  }

 private:
  void write(xml_node parent, const Blocks& blocks) {
    for (const Block& block : blocks) {
      if (!is_for(block.readers, Readers::kHtml)) continue;
      std::visit([&](const auto& content) { write(parent, content); }, block.content);
      add_text(parent, "\n");
    }
  }

  static void write(xml_node parent, const Paragraph& paragraph) {
    const xml_node node = add_element(parent, "p");
    if (!paragraph.lead.empty()) add_text(node, paragraph.lead + " ");
    add_spans(node, paragraph.text);
  }

  static void write(xml_node parent, const Code& code) {
    std::string text;
    for (const std::string& line : code.lines)
      text += line + "\n";
    add_text_element(parent, "pre", text);
  }

  static void write(xml_node parent, const Table& whole) {
    const Table table = table_for(whole, Readers::kHtml);
    if (table.rows.empty()) return;
    const xml_node box = add_element(parent, "div", {{"class", "scroll"}});
    const xml_node node = add_element(box, "table");
    const xml_node heads = add_element(add_element(node, "thead"), "tr");
    for (const Column& column : table.columns) {
      xml_node head = add_text_element(heads, "th", column.head, {{"scope", "col"}});
      if (column.is_number) head.append_attribute("class") = "number";
    }
    const xml_node body = add_element(node, "tbody");
    for (const Row& row : table.rows)
      write_row(body, row, table);
  }

  static void write_row(xml_node body, const Row& row, const Table& table) {
    const xml_node node = add_element(body, "tr");
    for (size_t i = 0; i < row.cells.size(); ++i) {
      xml_node cell = add_element(node, "td");
      std::string css = table.columns[i].is_number ? "number" : "";
      if (i == 0 && row.depth > 0)
        css = fmt::format("tree-{}", std::min(row.depth, kDeepestIndent));
      if (!css.empty()) cell.append_attribute("class") = css.c_str();
      add_spans(cell, row.cells[i]);
    }
    add_text(body, "\n");
  }

  void write(xml_node parent, const List& list) {
    const bool is_of_frames = list.kind == ListKind::kFrames;
    const bool is_plain = list.kind == ListKind::kPlain || list.kind == ListKind::kBullets;
    xml_node node = add_element(parent, is_plain ? "ul" : "ol");
    if (is_plain) node.append_attribute("class") = "plain";
    if (is_of_frames) node.append_attribute("class") = "frames";
    size_t count = 0;
    for (const Item& item : list.items) {
      if (is_of_frames && count++ == kMostFrames) {
        add_text_element(node, "li", "…");
        break;
      }
      const xml_node entry = add_element(node, "li");
      if (is_of_frames) bytes_of_frames_ += text_of(item.text).size();
      add_spans(entry, item.text);
      write(entry, item.blocks);
    }
  }

  void write(xml_node parent, const Field& field) {
    const std::string name = fmt::format("h{}", level_ + 1);
    add_spans(add_element(parent, name.c_str()), field.name);
    write(parent, field.blocks);
  }

  void write(xml_node parent, const Card& card) {
    if (card.fold != Fold::kNone) return write_folded(parent, card);
    const xml_node node = add_element(parent, "article", {{"class", "card"}, {"id", card.id}});
    ++level_;
    add_spans(add_element(node, fmt::format("h{}", level_).c_str()), card.title);
    write(node, card.blocks);
    --level_;
  }

  void write_folded(xml_node parent, const Card& card) {
    if (bytes_of_frames_ > kMostBytes) {
      ++left_out_;
      return;
    }
    xml_node node = add_element(parent, "details");
    if (card.fold == Fold::kOpen) node.append_attribute("open") = "";
    const xml_node summary = add_element(node, "summary");
    for (const Span& span : card.title) {
      if (&span != &card.title.front()) add_text(summary, " ");
      add_span(summary, span);
    }
    write(node, card.blocks);
  }

  static void write(xml_node parent, const Graph& graph) { add_graph(parent, graph); }
  static void write(xml_node parent, const Grid& grid) { add_grid(parent, grid); }
  static void write(xml_node parent, const Charts& charts) { add_charts(parent, charts); }

  int level_ = 2;  ///< of the heading above
  size_t bytes_of_frames_ = 0;
  size_t left_out_ = 0;  ///< folded cards of this section
};

std::string text_of_node(xml_node node) {
  std::ostringstream text;
  node.print(text, "", pugi::format_raw | pugi::format_no_empty_element_tags);
  return std::move(text).str();
}

void add_header(xml_node body, const Document& document) {
  const xml_node header = add_element(body, "header");
  add_text_element(add_element(header, "p"), "span", document.verdict.text,
                   {{"class", std::string("badge ") + class_of(document.verdict.mark)}});
  add_text_element(header, "h1", document.headline);
  add_spans(add_element(header, "p", {{"class", "quiet"}}), document.where);
}

xml_node add_body(pugi::xml_document& page, const Document& document) {
  const std::vector<const Section*> sections = page_order(document, Readers::kHtml);
  const xml_node body = page.append_child("body");
  add_text_element(body, "a", "To the cause", {{"class", "skip"}, {"href", "#main"}});
  add_header(body, document);
  const xml_node links = add_element(add_element(body, "nav", {{"aria-label", "Sections"}}), "ul");
  for (const Section* section : sections)
    add_text_element(add_element(links, "li"), "a", section->title, {{"href", "#" + section->id}});
  const xml_node main = add_element(body, "main", {{"id", "main"}});
  HtmlWriter writer;
  for (const Section* section : sections)
    writer.write(main, *section);
  add_text_element(
      add_element(body, "footer"), "p",
      "Made by dlprobe from its JSON report. Secrets in command lines are masked; read "
      "it before you send it on.");
  return body;
}

}  // namespace
}  // namespace document

std::string render_html(const AnyReport& report) {
  const document::Document document = document::document_of(report);
  const HtmlAssets& assets = html_assets();
  pugi::xml_document page;
  const pugi::xml_node title = document::add_text_element(
      page.root(), "title", document.verdict.text + ": " + document.headline);
  std::string out(assets.head);
  out += document::text_of_node(title);
  out += assets.style;
  out += document::text_of_node(document::add_body(page, document));
  out += assets.script;
  return out;
}

}  // namespace dlprobe
