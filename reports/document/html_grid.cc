// A grid of ranks: a line for each of a few, a small square for each of many.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "lib/base/units.h"
#include "reports/document/html_nodes.h"

namespace dlprobe::document {
namespace {

using pugi::xml_node;

constexpr size_t kMostRowsAsLines = 64;

std::string_view class_of(Grid::Tone tone) {
  switch (tone) {
    case Grid::Tone::kWaits:
      return "t-waits";
    case Grid::Tone::kWorks:
      return "t-works";
    case Grid::Tone::kLate:
      return "t-late";
    case Grid::Tone::kBad:
      return "t-bad";
    case Grid::Tone::kAbsent:
      return "t-absent";
    case Grid::Tone::kIdle:
      break;
  }
  return "t-idle";
}

std::string cell_text(const Grid::Cell& cell) {
  return cell.word + (cell.time.empty() ? "" : " " + cell.time);
}

void add_line(xml_node parent, const Grid::Row& row) {
  const xml_node line = add_element(parent, "li");
  add_text_element(line, "strong", row.name);
  add_text_element(line, "span", cell_text(row.cell),
                   {{"class", fmt::format("cell {}", class_of(row.cell.tone))}});
  for (const Grid::Cell& worker : row.workers) {
    add_text_element(line, "span", cell_text(worker),
                     {{"class", fmt::format("cell worker {}", class_of(worker.tone))}});
  }
}

// What the colours are, with how many have each.
void add_legend(xml_node parent, const Grid& grid) {
  std::map<std::pair<Grid::Tone, std::string>, size_t> counts;
  for (const Grid::Row& row : grid.rows)
    ++counts[{row.cell.tone, row.cell.word}];
  const xml_node legend = add_element(parent, "p", {{"class", "quiet"}});
  for (const auto& [what, count] : counts) {
    add_element(legend, "i", {{"class", fmt::format("square {}", class_of(what.first))}});
    add_text(legend, fmt::format(" {} {}  ", counted(count, "rank"), what.second));
  }
}

}  // namespace

void add_grid(xml_node parent, const Grid& grid) {
  if (grid.rows.size() <= kMostRowsAsLines) {
    const xml_node list = add_element(parent, "ul", {{"class", "ranks"}});
    for (const Grid::Row& row : grid.rows)
      add_line(list, row);
    return;
  }
  add_legend(parent, grid);
  const xml_node box = add_element(
      parent, "div",
      {{"class", "squares"},
       {"role", "img"},
       {"aria-label", fmt::format("{}, one square each", counted(grid.rows.size(), "rank"))}});
  for (const Grid::Row& row : grid.rows)
    add_element(box, "i", {{"class", std::string(class_of(row.cell.tone))}, {"title", row.hint}});
}

}  // namespace dlprobe::document
