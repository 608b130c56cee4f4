#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "lib/base/utf8.h"
#include "reports/document/html_nodes.h"
#include "reports/document/text_page.h"

namespace dlprobe::document {
namespace {

using pugi::xml_node;

constexpr int kNodeWidth = 210;
constexpr int kNodeHeight = 64;
// Between layers there is room for an arrow with its word, between the nodes of one for less.
constexpr int kGapOfLayers = 130;
constexpr int kGapOfNodes = 22;
constexpr int kHeightOfArrow = 46;
constexpr int kMargin = 10;
// An arrow that leads back bulges by three quarters of this: its word fits in between.
constexpr int kLaneRight = 124;
constexpr int kLaneBelow = 60;
// More side by side are wider than a page.
constexpr int kMostAcross = 3;
constexpr size_t kLettersInALine = 30;
constexpr size_t kMostLines = 3;
constexpr size_t kLettersOfRelation = 20;

/// Where each node of a graph stands, in layers.
struct Drawing {
  struct Place {
    int layer = 0;
    int row = 0;
  };
  const Graph& graph;
  std::vector<Place> places;
  /// The layers stand below each other: a chain then fits a narrow screen.
  bool is_upright = false;
};

// The node's layer, and of those that it leads to and that have none yet, one further each.
void spread(const Graph& graph, size_t start, int at, std::vector<int>& layer) {
  std::deque<size_t> next = {start};
  layer[start] = at;
  while (!next.empty()) {
    const size_t node = next.front();
    next.pop_front();
    for (const Graph::Edge& edge : graph.edges) {
      if (edge.from != node || layer[edge.to] >= 0) continue;
      layer[edge.to] = layer[node] + 1;
      next.push_back(edge.to);
    }
  }
}

// How many steps each is from the beginning of the chain; what only leads there stands left of its
// target.
Drawing drawing_of(const Graph& graph) {
  const size_t count = graph.nodes.size();
  std::vector<int> layer(count, -1);
  if (count > 0) spread(graph, 0, 0, layer);
  for (size_t i = 0; i < count; ++i) {
    if (layer[i] >= 0) continue;
    int target = -1;
    for (const Graph::Edge& edge : graph.edges) {
      if (edge.from == i) target = std::max(target, layer[edge.to]);
    }
    spread(graph, i, std::max(target - 1, 0), layer);
  }
  Drawing drawing = {.graph = graph};
  std::map<int, int> rows;
  for (size_t i = 0; i < count; ++i)
    drawing.places.push_back({.layer = layer[i], .row = rows[layer[i]]++});
  drawing.is_upright =
      std::ranges::all_of(rows, [](const auto& each) { return each.second <= kMostAcross; });
  return drawing;
}

std::string cut_to(size_t letters, const std::string& text) {
  if (columns_of(text) <= letters + 2) return text;
  std::string cut;
  for (std::string_view rest = text; !rest.empty() && columns_of(cut) < letters;) {
    const size_t bytes = decode_utf8(rest).bytes;
    cut += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  return cut + "…";
}

// Broken between words into lines that a box can hold; the last one may be cut.
std::vector<std::string> lines_in_box(const std::string& text) {
  std::vector<std::string> lines(1);
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    const bool fits = columns_of(lines.back()) + columns_of(word) < kLettersInALine;
    if (!lines.back().empty() && !fits) {
      if (lines.size() == kMostLines) {
        lines.back() += " …";
        return lines;
      }
      lines.emplace_back();
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  for (std::string& line : lines)
    line = cut_to(kLettersInALine, line);
  return lines;
}

struct Point {
  int x = 0;
  int y = 0;
};

Point corner_of(const Drawing& drawing, size_t node) {
  const auto [layer, row] = drawing.places[node];
  if (drawing.is_upright)
    return {kMargin + row * (kNodeWidth + kGapOfNodes),
            kMargin + layer * (kNodeHeight + kHeightOfArrow)};
  return {kMargin + layer * (kNodeWidth + kGapOfLayers),
          kMargin + row * (kNodeHeight + kGapOfNodes)};
}

void add_node(xml_node svg, const Drawing& drawing, size_t index) {
  const Graph::Node& node = drawing.graph.nodes[index];
  const auto [x, y] = corner_of(drawing, index);
  std::string text = node.label;
  if (!node.activity.empty()) text += ", " + node.activity;
  const xml_node group = add_element(svg, "g");
  add_text_element(group, "title", text + (node.code.empty() ? "" : ", " + node.code));
  add_element(group, "rect",
              {{"class", node.in_chain ? "node chain" : "node"},
               {"x", std::to_string(x)},
               {"y", std::to_string(y)},
               {"width", std::to_string(kNodeWidth)},
               {"height", std::to_string(kNodeHeight)},
               {"rx", node.is_thread ? "4" : "16"}});
  int line_y = y + 20;
  for (const std::string& line : lines_in_box(text)) {
    add_text_element(group, "text", line,
                     {{"x", std::to_string(x + 10)}, {"y", std::to_string(line_y)}});
    line_y += 16;
  }
  add_text(svg, "\n");
}

// The middle of the side of a node that looks to the next layer (or to the layer before).
Point side_of(const Drawing& drawing, size_t node, bool is_next) {
  const auto [x, y] = corner_of(drawing, node);
  if (drawing.is_upright) return {x + kNodeWidth / 2, y + (is_next ? kNodeHeight : 0)};
  return {x + (is_next ? kNodeWidth : 0), y + kNodeHeight / 2};
}

std::string curve(Point begin, Point first, Point second, Point end) {
  return fmt::format("M{} {}C{} {} {} {} {} {}", begin.x, begin.y, first.x, first.y, second.x,
                     second.y, end.x, end.y);
}

// An arrow back, around the nodes between: right of them in an upright drawing, else below them.
std::string way_back(const Drawing& drawing, const Graph::Edge& edge, Point lane) {
  const Point from = corner_of(drawing, edge.from);
  const Point to = corner_of(drawing, edge.to);
  if (drawing.is_upright) {
    const Point begin{from.x + kNodeWidth, from.y + kNodeHeight / 2};
    const Point end{to.x + kNodeWidth, to.y + kNodeHeight / 2};
    return curve(begin, {lane.x, begin.y}, {lane.x, end.y}, end);
  }
  const Point begin{from.x + kNodeWidth / 2, from.y + kNodeHeight};
  const Point end{to.x + kNodeWidth / 2, to.y + kNodeHeight};
  return curve(begin, {begin.x, lane.y}, {end.x, lane.y}, end);
}

std::string way_on(const Drawing& drawing, Point begin, Point end) {
  const Point middle{(begin.x + end.x) / 2, (begin.y + end.y) / 2};
  if (drawing.is_upright) return curve(begin, {begin.x, middle.y}, {end.x, middle.y}, end);
  return curve(begin, {middle.x, begin.y}, {middle.x, end.y}, end);
}

// `size` is that of the drawing without the lane of the arrows that lead back.
void add_edge(xml_node svg, const Drawing& drawing, const Graph::Edge& edge, Point size) {
  const bool is_forward = drawing.places[edge.to].layer > drawing.places[edge.from].layer;
  const Point begin = side_of(drawing, edge.from, /*is_next=*/true);
  const Point end = side_of(drawing, edge.to, /*is_next=*/false);
  const Point middle{(begin.x + end.x) / 2, (begin.y + end.y) / 2};
  std::string way;
  Point word;
  if (is_forward) {
    way = way_on(drawing, begin, end);
    word = drawing.is_upright ? Point{middle.x + 8, middle.y + 4} : Point{middle.x, middle.y - 6};
  } else {
    way = way_back(drawing, edge, {size.x + kLaneRight, size.y + kLaneBelow});
    word = drawing.is_upright ? Point{size.x + 4, begin.y - kNodeHeight / 2 + 16}
                              : Point{middle.x, size.y + kLaneBelow * 3 / 4 - 6};
  }
  const std::string kind = edge.in_chain ? "-chain" : "";
  add_element(svg, "path",
              {{"class", "edge" + kind}, {"marker-end", "url(#tip" + kind + ")"}, {"d", way}});
  add_text_element(svg, "text", cut_to(kLettersOfRelation, edge.relation),
                   {{"class", "relation"},
                    {"text-anchor", drawing.is_upright ? "start" : "middle"},
                    {"x", std::to_string(word.x)},
                    {"y", std::to_string(word.y)}});
}

void add_tip(xml_node defs, const std::string& name) {
  const xml_node marker = add_element(defs, "marker",
                                      {{"id", name},
                                       {"viewBox", "0 0 8 8"},
                                       {"refX", "7"},
                                       {"refY", "4"},
                                       {"markerWidth", "8"},
                                       {"markerHeight", "8"},
                                       {"markerUnits", "userSpaceOnUse"},
                                       {"orient", "auto"}});
  add_element(marker, "path", {{"class", name}, {"d", "M0 0L8 4L0 8Z"}});
}

}  // namespace

void add_graph(xml_node parent, const Graph& graph) {
  const Drawing drawing = drawing_of(graph);
  Point size;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Point corner = corner_of(drawing, i);
    size = {std::max(size.x, corner.x + kNodeWidth), std::max(size.y, corner.y + kNodeHeight)};
  }
  const bool has_back = std::ranges::any_of(graph.edges, [&](const Graph::Edge& edge) {
    return drawing.places[edge.to].layer <= drawing.places[edge.from].layer;
  });
  const int right = drawing.is_upright && has_back ? kLaneRight * 3 / 4 : 0;
  const int below = !drawing.is_upright && has_back ? kLaneBelow * 3 / 4 : 0;
  const std::string width = std::to_string(size.x + right + kMargin);
  const std::string height = std::to_string(size.y + below + kMargin);
  const xml_node svg = add_element(
      add_element(parent, "div", {{"class", "scroll"}}), "svg",
      {{"class", "graph"},
       {"width", width},
       {"height", height},
       {"viewBox", fmt::format("0 0 {} {}", width, height)},
       {"role", "img"},
       {"aria-label", fmt::format("Drawing of who waits for whom; the same as the list below: {} "
                                  "threads and objects",
                                  graph.nodes.size())}});
  const xml_node defs = add_element(svg, "defs");
  add_tip(defs, "tip");
  add_tip(defs, "tip-chain");
  for (const Graph::Edge& edge : graph.edges)
    add_edge(svg, drawing, edge, size);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    add_node(svg, drawing, i);
  if (graph.left_out == 0) return;
  add_text_element(parent, "p",
                   fmt::format("{} more are not drawn; the JSON report has all.", graph.left_out),
                   {{"class", "quiet"}});
}

}  // namespace dlprobe::document
