// The document on a terminal: paragraphs with what leads them on the left, tables as grids.

#include <algorithm>
#include <string>
#include <utility>

#include "reports/document/builders.h"
#include "reports/document/render.h"
#include "reports/document/text_page.h"

namespace dlprobe {
namespace document {
namespace {

std::string blanks(size_t count) {
  std::string text(count, ' ');
  return text;
}

// At least one blank stands behind it.
std::string padded_lead(const std::string& text, int columns) {
  const auto wanted = static_cast<size_t>(std::max(columns, 0));
  const size_t taken = columns_of(text) + 1;
  return text + blanks(wanted > taken ? wanted - taken + 1 : 1);
}

std::string lead_of_cell(const Column& column, const std::string& text) {
  if (column.lead == Column::kOwnWidth) return text + "  ";
  if (!column.is_number) return padded_lead(text, column.lead);
  const auto wanted = static_cast<size_t>(column.lead);
  const size_t taken = columns_of(text) + 2;
  return blanks(wanted > taken ? wanted - taken : 0) + text + "  ";
}

class TextWriter {
 public:
  explicit TextWriter(const TextOptions& options) : page_(options) {}

  std::string write(const Document& document) && {
    if (!document.verdict.text.empty()) {
      page_.paragraph(document.verdict.text + "  ", document.headline, document.verdict.mark);
    }
    for (const Section& section : document.sections)
      write_section(section);
    if (!document.where.empty()) {
      page_.blank_line();
      page_.paragraph("", text_of(document.where));
    }
    if (!document.more.empty()) page_.paragraph("", document.more);
    return std::move(page_).take();
  }

 private:
  void write_section(const Section& section) {
    if (!is_for(section.readers, Readers::kText)) return;
    if (section.is_titled_in_text) {
      page_.heading(section.title);
    } else if (!page_.is_empty()) {
      page_.blank_line();
    }
    is_first_ = true;
    write_blocks(section.blocks, section.is_titled_in_text ? 2 : 0);
  }

  void write_blocks(const Blocks& blocks, size_t indent) {
    for (const Block& block : blocks) {
      if (!is_for(block.readers, Readers::kText)) continue;
      std::visit([&](const auto& content) { write(content, indent); }, block.content);
      is_first_ = false;
    }
  }

  // What leads the next paragraph: the name of a field, or nothing but blanks.
  std::string take_lead(size_t indent) {
    return lead_.empty() ? blanks(indent) : std::exchange(lead_, {});
  }

  void write_lines(const std::string& lead, const Spans& text, Mark mark = Mark::kPlain) {
    bool is_next = false;
    for (const Spans& line : lines_of(text)) {
      page_.paragraph(is_next ? blanks(columns_of(lead)) : lead, text_of(line),
                      is_next ? Mark::kPlain : mark);
      is_next = true;
    }
  }

  void write(const Paragraph& paragraph, size_t indent) {
    std::string lead = take_lead(indent);
    if (!paragraph.lead.empty()) lead += padded_lead(paragraph.lead, paragraph.lead_columns);
    write_lines(lead, paragraph.text);
  }

  void write(const Code& code, size_t indent) {
    for (const std::string& line : code.lines) {
      const size_t skipped = code.is_shell ? 0 : std::min(line.find_first_not_of(' '), line.size());
      const std::string lead = code.is_shell ? "$ " : blanks(skipped);
      page_.code(take_lead(indent) + lead, line.substr(skipped));
    }
  }

  void write(const Table& whole, size_t indent) {
    const Table table = table_for(whole, Readers::kText);
    if (table.is_lines) return write_rows(table, indent);
    std::vector<std::vector<std::string>> rows(1);
    for (const Column& column : table.columns)
      rows.front().push_back(column.head);
    for (const Row& row : table.rows) {
      rows.emplace_back();
      for (const Spans& cell : row.cells)
        rows.back().push_back(text_of(cell));
    }
    page_.table(std::move(rows), table.keep);
  }

  void write_rows(const Table& table, size_t indent) {
    for (const Row& row : table.rows) {
      std::string lead = take_lead(indent);
      Mark mark = Mark::kPlain;
      Spans text;
      for (size_t i = 0; i < table.columns.size(); ++i) {
        const Column& column = table.columns[i];
        const Spans& cell = row.cells[i];
        if (column.lead != 0) {
          lead += lead_of_cell(column, text_of(cell));
          if (mark == Mark::kPlain && !cell.empty()) mark = cell.front().mark;
        } else if (!cell.empty()) {
          text = spans(text, column.before, cell, column.after);
        }
      }
      if (text.empty()) lead.erase(lead.find_last_not_of(' ') + 1);
      write_lines(lead, text, mark);
    }
  }

  void write(const List& list, size_t indent) {
    size_t step = 0;
    for (const Item& item : list.items) {
      std::string lead = take_lead(indent);
      if (list.kind == ListKind::kBullets) lead += "- ";
      if (list.kind == ListKind::kSteps) lead += blanks(2 * std::min<size_t>(step++, 10));
      if (list.kind == ListKind::kFrames) lead += lead_of_frame(item);
      write_lines(lead, item.text);
      write_blocks(item.blocks, indent + 2);
    }
  }

  static std::string lead_of_frame(const Item& frame) {
    const Mark mark = frame.text.empty() ? Mark::kPlain : frame.text.front().mark;
    if (mark == Mark::kQuiet) return ". ";
    return mark == Mark::kWarn ? "  ! " : "  ";
  }

  void write(const Field& field, size_t indent) {
    if (field.columns == 0) {
      write_lines(take_lead(indent), field.name);
      write_blocks(field.blocks, indent + 2);
      return;
    }
    lead_ = take_lead(indent) + padded_lead(text_of(field.name), field.columns);
    write_blocks(field.blocks, columns_of(lead_));
    lead_.clear();
  }

  void write(const Card& card, size_t indent) {
    if (!is_first_) page_.blank_line();
    if (card.title.empty()) return;
    const Span& first = card.title.front();
    const Spans rest(card.title.begin() + 1, card.title.end());
    page_.paragraph(blanks(indent) + first.text + (rest.empty() ? "" : " "), text_of(rest),
                    first.mark);
    write_blocks(card.blocks, indent + 2);
  }

  static void write(const Graph& /*graph*/, size_t /*indent*/) {}
  static void write(const Charts& /*charts*/, size_t /*indent*/) {}
  static void write(const Grid& /*grid*/, size_t /*indent*/) {}

  TextPage page_;
  std::string lead_;
  bool is_first_ = true;  ///< nothing of the section is written yet
};

}  // namespace
}  // namespace document

std::string render_text(const AnyReport& report, const TextOptions& options) {
  const document::Document document =
      options.verbosity > 0 ? document::document_of(report) : document::brief_of(report);
  if (options.verbosity < 0) return document.verdict.text + "  " + document.headline + "\n";
  return document::TextWriter(options).write(document);
}

std::string render_stacks(const report::Stacks& stacks, const TextOptions& options) {
  return document::TextWriter(options).write(document::document_of(stacks, options.verbosity > 0));
}

}  // namespace dlprobe
