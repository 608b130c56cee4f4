#include "reports/document/text_page.h"

#include <algorithm>
#include <numeric>

#include "lib/base/utf8.h"

namespace dlprobe {

using document::Mark;

namespace {

constexpr size_t kNarrowest = 40;

std::string_view escape_of(Mark mark) {
  switch (mark) {
    case Mark::kStrong:
      return "\x1b[1m";
    case Mark::kFail:
      return "\x1b[1;31m";
    case Mark::kWarn:
    case Mark::kUnsure:
      return "\x1b[1;33m";
    case Mark::kPass:
      return "\x1b[1;32m";
    case Mark::kQuiet:
      return "\x1b[2m";
    default:
      return "";
  }
}

// The first `columns` columns of `text`, in bytes.
size_t bytes_of_columns(std::string_view text, size_t columns) {
  size_t bytes = 0;
  while (columns > 0 && bytes < text.size()) {
    bytes += decode_utf8(text.substr(bytes)).bytes;
    --columns;
  }
  return bytes;
}

std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

std::string padded(const std::string& cell, size_t width, bool to_the_right) {
  const size_t columns = columns_of(cell);
  const std::string blanks(width > columns ? width - columns : 0, ' ');
  return to_the_right ? blanks + cell : cell + blanks;
}

std::vector<size_t> column_widths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  return widths;
}

void erase_column(std::vector<std::vector<std::string>>& rows, size_t column) {
  for (auto& row : rows)
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
}

}  // namespace

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (; !text.empty(); text.remove_prefix(decode_utf8(text).bytes))
    ++columns;
  return columns;
}

std::string TextPage::marked(std::string_view text, Mark mark) const {
  const std::string_view escape = escape_of(mark);
  if (!options_.color || escape.empty() || text.empty()) return std::string(text);
  return std::string(escape) + std::string(text) + "\x1b[0m";
}

void TextPage::paragraph(std::string_view lead, std::string_view text, Mark lead_mark) {
  const size_t indent = columns_of(lead);
  const size_t width =
      std::max<size_t>(static_cast<size_t>(std::max(options_.width, 0)), indent + kNarrowest / 2);
  out_ += marked(lead, lead_mark);
  size_t column = indent;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    if (column > indent && column + 1 + columns_of(word) > width) {
      out_ += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out_ += ' ';
      ++column;
    }
    // A word that no line can hold is cut.
    while (columns_of(word) > width - indent) {
      const size_t bytes = bytes_of_columns(word, width - indent);
      out_ += std::string(word.substr(0, bytes)) + '\n' + std::string(indent, ' ');
      word.remove_prefix(bytes);
    }
    out_ += word;
    column += columns_of(word);
  }
  out_ += '\n';
}

void TextPage::code(std::string_view lead, std::string_view code) {
  out_ += std::string(lead) + std::string(code) + '\n';
}

void TextPage::heading(std::string_view text) {
  out_ += '\n' + marked(text, Mark::kStrong) + '\n';
}

void TextPage::table(std::vector<std::vector<std::string>> rows, size_t first_columns_to_keep) {
  // Names alone are no table.
  if (rows.front().size() == first_columns_to_keep) return;
  const auto width = static_cast<size_t>(std::max(options_.width, 0));
  std::vector<size_t> widths = column_widths(rows);
  std::string gap = "  ";
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), gap.size() * widths.size());
  };
  if (total() > width) gap = " ";
  while (total() > width && widths.size() > first_columns_to_keep) {
    erase_column(rows, widths.size() - 1);
    widths.pop_back();
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += gap + padded(row[i], widths[i], /*to_the_right=*/i >= first_columns_to_keep);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out_ += &row == &rows.front() ? marked(line, Mark::kQuiet) : line;
    out_ += '\n';
  }
}

}  // namespace dlprobe
