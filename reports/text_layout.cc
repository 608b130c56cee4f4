#include "reports/text_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "lib/base/escape.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"

namespace dlprobe {
namespace {

constexpr size_t kNarrowest = 40;

std::string_view escape_of(Style style) {
  switch (style) {
    case Style::kBold:
      return "\x1b[1m";
    case Style::kRed:
      return "\x1b[1;31m";
    case Style::kYellow:
      return "\x1b[1;33m";
    case Style::kGreen:
      return "\x1b[1;32m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kPlain:
      break;
  }
  return "";
}

std::string bytes_text(double bytes) {
  if (bytes < 0) return "-" + format_bytes(static_cast<uint64_t>(std::min(-bytes, 1.8e19)));
  return format_bytes(static_cast<uint64_t>(std::min(bytes, 1.8e19)));
}

std::string seconds_text(double seconds) {
  if (!(std::abs(seconds) < 9e9)) return fmt::format("{} s", seconds);
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

const Json* member_of(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
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

bool is_empty_column(const std::vector<std::vector<std::string>>& rows, size_t column) {
  return std::all_of(rows.begin() + 1, rows.end(),
                     [column](const auto& row) { return row[column] == "-"; });
}

}  // namespace

std::string text_at(const Json& object, const char* key) {
  const Json* found = member_of(object, key);
  if (found == nullptr || !found->is_string()) return "";
  return escape_for_terminal(found->get_ref<const std::string&>());
}

std::optional<double> number_at(const Json& object, const char* key) {
  const Json* found = member_of(object, key);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

int64_t integer_at(const Json& object, const char* key) {
  constexpr double kExact = 9e15;
  const auto number = number_at(object, key);
  return number && std::abs(*number) < kExact ? static_cast<int64_t>(*number) : 0;
}

const Json& items_at(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json* found = member_of(object, key);
  return found != nullptr && found->is_array() ? *found : none;
}

const Json& object_at(const Json& object, const char* key) {
  static const Json none = Json::object();
  const Json* found = member_of(object, key);
  return found != nullptr && found->is_object() ? *found : none;
}

std::string bytes_at(const Json& object, const char* key) {
  const auto bytes = number_at(object, key);
  return bytes ? bytes_text(*bytes) : "-";
}

std::string suppression_text(const Json& finding) {
  const Json& suppressed = object_at(finding, "suppressed");
  const std::string until = text_at(suppressed, "until");
  return fmt::format("{} ({}{})", text_at(suppressed, "reason"),
                     until.empty() ? "" : "until " + until + ", ", text_at(suppressed, "source"));
}

std::string value_with_unit(const Json& value, std::string_view unit) {
  if (value.is_string()) return escape_for_terminal(value.get_ref<const std::string&>());
  if (!value.is_number()) return "-";
  const auto number = value.get<double>();
  if (unit == "bytes") return bytes_text(number);
  if (unit == "s") return seconds_text(number);
  const std::string text =
      value.is_number_float() ? fmt::format("{:.3g}", number) : escape_for_terminal(value.dump());
  return unit.empty() || unit == "1" ? text : text + " " + escape_for_terminal(unit);
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (; !text.empty(); text.remove_prefix(decode_utf8(text).bytes))
    ++columns;
  return columns;
}

std::string TextPage::styled(std::string_view text, Style style) const {
  if (!options_.color || style == Style::kPlain) return std::string(text);
  return std::string(escape_of(style)) + std::string(text) + "\x1b[0m";
}

void TextPage::paragraph(std::string_view lead, std::string_view text, Style lead_style) {
  const size_t indent = columns_of(lead);
  const size_t width =
      std::max<size_t>(static_cast<size_t>(std::max(options_.width, 0)), indent + kNarrowest / 2);
  out_ += styled(lead, lead_style);
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

void TextPage::heading(std::string_view text) {
  out_ += '\n' + styled(text, Style::kBold) + '\n';
}

void TextPage::table(std::vector<std::vector<std::string>> rows, size_t first_columns_to_keep) {
  for (size_t i = rows.front().size(); i-- > first_columns_to_keep;) {
    if (is_empty_column(rows, i)) erase_column(rows, i);
  }
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
    out_ += &row == &rows.front() ? styled(line, Style::kDim) : line;
    out_ += '\n';
  }
}

}  // namespace dlprobe
