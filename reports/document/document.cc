#include "reports/document/document.h"

#include <fmt/format.h>

#include <algorithm>

namespace dlprobe::document {
namespace {

// "21:47:44.120" of "2026-11-20T21:47:44.120Z".
std::string clock_time(const std::string& utc) {
  return utc.size() == 24 ? utc.substr(11, 12) : utc;
}

bool is_empty_cell(const Spans& cell) {
  const std::string text = text_of(cell);
  return text.empty() || text == "-";
}

}  // namespace

std::string text_of(const Spans& spans) {
  std::string text;
  for (const Span& span : spans)
    text += span.mark == Mark::kTime ? clock_time(span.text) : span.text;
  return text;
}

std::string name_of(const Graph::Node& node) {
  return node.count == 1 ? node.label : fmt::format("{} (× {} alike)", node.label, node.count);
}

double highest(const Series& series) {
  double most = 0;
  for (const auto& value : series)
    most = std::max(most, value.value_or(0));
  return most;
}

double highest(const Chart& chart) {
  double most = 0;
  for (const auto& [name, series] : chart.series)
    most = std::max(most, highest(series));
  return most;
}

std::vector<Spans> lines_of(const Spans& spans) {
  std::vector<Spans> lines(1);
  for (const Span& span : spans) {
    if (span.mark == Mark::kBreak) {
      lines.emplace_back();
    } else {
      lines.back().push_back(span);
    }
  }
  return lines;
}

Table table_for(const Table& table, Readers reader) {
  // A line leaves out single cells.
  const bool is_lines = table.is_lines && reader == Readers::kText;
  Table shown = {.keep = 0, .is_lines = table.is_lines};
  for (const Row& row : table.rows)
    shown.rows.push_back({.depth = row.depth});
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const bool is_empty = std::ranges::all_of(table.rows, [i](const Row& row) {
      return i >= row.cells.size() || is_empty_cell(row.cells[i]);
    });
    const bool is_left_out = is_empty && i >= table.keep && !is_lines;
    if (!is_for(table.columns[i].readers, reader) || is_left_out) continue;
    if (i < table.keep) ++shown.keep;
    shown.columns.push_back(table.columns[i]);
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const std::vector<Spans>& cells = table.rows[row].cells;
      shown.rows[row].cells.push_back(i < cells.size() ? cells[i] : Spans());
    }
  }
  return shown;
}

std::vector<const Section*> page_order(const Document& document, Readers reader) {
  std::vector<const Section*> order;
  for (const Section& section : document.sections) {
    if (is_for(section.readers, reader)) order.push_back(&section);
  }
  std::ranges::stable_sort(order, {}, &Section::weight);
  return order;
}

}  // namespace dlprobe::document
