// The drawing of who waits for whom: layers below each other, the chain to the root cause at the
// left edge, so that a narrow page has it whole.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/utf8.h"
#include "reports/document/html_nodes.h"
#include "reports/document/text_page.h"

namespace dlprobe::document {
namespace {

using pugi::xml_node;

constexpr int kNodeWidth = 264;
constexpr int kPadding = 10;
constexpr int kLineHeight = 18;
constexpr int kGapOfNodes = 24;
constexpr int kMargin = 4;
// Below a node all its arrows are one, and its word stands beside it; only then they part.
constexpr int kTrunk = 20;
constexpr int kGapOfLayers = 54;
// Arrows that lead back run beside the nodes, each in its own lane.
constexpr int kLane = 8;
constexpr int kMostLanes = 4;
constexpr int kRoomOfLanes = 16 + kLane * kMostLanes;
// More side by side are wider than a page.
constexpr int kMostAcross = 4;
constexpr size_t kLettersInALine = 30;
constexpr size_t kMostLinesOfAText = 3;
constexpr size_t kLettersOfRelation = 16;

struct Line {
  std::string text;
  const char* css = "";
};

struct Point {
  int x = 0;
  int y = 0;
};

struct Box {
  int layer = 0;
  int row = 0;
  std::vector<Line> lines;
  Point corner;

  int height() const { return static_cast<int>(lines.size()) * kLineHeight + kPadding; }
  int bottom() const { return corner.y + height(); }
  int middle() const { return corner.x + kNodeWidth / 2; }
  bool is_drawn() const { return row < kMostAcross; }
};

struct Drawing {
  const Graph& graph;
  std::vector<Box> boxes;    ///< of each node
  std::vector<int> bottoms;  ///< of each layer
  Point size;
  int across = 0;  ///< the most nodes side by side
  int lanes = 0;   ///< arrows that lead back
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

// How many steps each is from the beginning of the chain; what only leads there stands before its
// target.
std::vector<int> layers_of(const Graph& graph) {
  std::vector<int> layer(graph.nodes.size(), -1);
  for (size_t i = 0; i < layer.size(); ++i) {
    if (layer[i] >= 0) continue;
    int target = -1;
    for (const Graph::Edge& edge : graph.edges) {
      if (edge.from == i) target = std::max(target, layer[edge.to]);
    }
    spread(graph, i, std::max(target - 1, 0), layer);
  }
  return layer;
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
void add_lines(std::vector<Line>& box, const std::string& text, const char* css) {
  std::vector<std::string> lines(1);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    const bool fits = columns_of(lines.back()) + columns_of(word) < kLettersInALine;
    if (!lines.back().empty() && !fits) {
      if (lines.size() == kMostLinesOfAText) {
        lines.back() += " …";
        break;
      }
      lines.emplace_back();
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  for (const std::string& line : lines) {
    if (!line.empty()) box.push_back({.text = cut_to(kLettersInALine, line), .css = css});
  }
}

std::vector<Line> lines_of(const Graph::Node& node) {
  std::vector<Line> lines;
  add_lines(lines, name_of(node), "name");
  add_lines(lines, node.activity, "doing");
  add_lines(lines, node.place, "place");
  if (node.is_root_cause) lines.push_back({.text = "the root cause", .css = "root"});
  return lines;
}

bool leads_back(const Drawing& drawing, const Graph::Edge& edge) {
  return drawing.boxes[edge.to].layer <= drawing.boxes[edge.from].layer;
}

bool is_drawn(const Drawing& drawing, const Graph::Edge& edge) {
  return drawing.boxes[edge.from].is_drawn() && drawing.boxes[edge.to].is_drawn();
}

Drawing drawing_of(const Graph& graph) {
  Drawing drawing = {.graph = graph};
  const std::vector<int> layers = layers_of(graph);
  std::map<int, int> rows;
  std::map<int, int> heights;
  for (size_t i = 0; i < layers.size(); ++i) {
    Box box = {.layer = layers[i], .row = rows[layers[i]]++, .lines = lines_of(graph.nodes[i])};
    if (box.is_drawn()) {
      heights[box.layer] = std::max(heights[box.layer], box.height());
      drawing.across = std::max(drawing.across, box.row + 1);
    }
    drawing.boxes.push_back(std::move(box));
  }
  drawing.lanes = static_cast<int>(std::ranges::count_if(graph.edges, [&](const auto& edge) {
    return leads_back(drawing, edge) && is_drawn(drawing, edge);
  }));
  const bool is_top_target = std::ranges::any_of(graph.edges, [&](const auto& edge) {
    return is_drawn(drawing, edge) && leads_back(drawing, edge) &&
           drawing.boxes[edge.to].layer == 0;
  });
  std::map<int, int> tops;
  int y = is_top_target ? kRoomOfLanes : kMargin;
  for (const auto& [layer, height] : heights) {
    tops[layer] = y;
    drawing.bottoms.push_back(y + height);
    y += height + kGapOfLayers;
  }
  for (Box& box : drawing.boxes)
    box.corner = {kMargin + box.row * (kNodeWidth + kGapOfNodes), tops[box.layer]};
  const int right = kMargin + drawing.across * (kNodeWidth + kGapOfNodes) - kGapOfNodes;
  const int beyond = drawing.lanes > 0 ? kRoomOfLanes : 0;
  drawing.size = {right + beyond + kMargin, y - kGapOfLayers + beyond + kMargin};
  return drawing;
}

void add_node(xml_node svg, const Graph::Node& node, const Box& box) {
  std::string text = name_of(node);
  for (const std::string& more : {node.activity, node.place}) {
    if (!more.empty()) text += ", " + more;
  }
  const xml_node group = add_element(svg, "g");
  add_text_element(group, "title", text);
  add_element(group, "rect",
              {{"class", node.in_chain ? "node chain" : "node"},
               {"x", std::to_string(box.corner.x)},
               {"y", std::to_string(box.corner.y)},
               {"width", std::to_string(kNodeWidth)},
               {"height", std::to_string(box.height())},
               {"rx", node.is_thread ? "4" : "14"}});
  int y = box.corner.y;
  for (const Line& line : box.lines) {
    y += kLineHeight;
    add_text_element(group, "text", line.text,
                     {{"class", line.css},
                      {"x", std::to_string(box.corner.x + kPadding)},
                      {"y", std::to_string(y)}});
  }
  add_text(svg, "\n");
}

// Down, and in a curve to the target.
std::string way_on(const Box& from, const Box& to, int bottom) {
  const int start = bottom + kTrunk;
  const int half = (start + to.corner.y) / 2;
  return fmt::format("M{} {}V{}C{} {} {} {} {} {}", from.middle(), from.bottom(), start,
                     from.middle(), half, to.middle(), half, to.middle(), to.corner.y);
}

// Down, to the lane right of all nodes, up and to the target from above.
std::string way_back(const Drawing& drawing, const Box& from, const Box& to, int lane) {
  const int beside = lane * kLane;
  const int right = drawing.size.x - kMargin - beside;
  const auto layer = static_cast<size_t>(from.layer);
  return fmt::format("M{} {}V{}H{}V{}H{}V{}", from.middle(), from.bottom(),
                     drawing.bottoms[layer] + kTrunk + beside, right,
                     to.corner.y - kTrunk / 2 - beside, to.middle() + kTrunk, to.corner.y);
}

// `lane` is the next one that is free.
void add_edge(xml_node svg, const Drawing& drawing, const Graph::Edge& edge, int& lane) {
  const Box& from = drawing.boxes[edge.from];
  const Box& to = drawing.boxes[edge.to];
  const std::string kind = edge.in_chain ? "-chain" : "";
  std::string way;
  if (leads_back(drawing, edge)) {
    way = way_back(drawing, from, to, lane);
    lane = (lane + 1) % kMostLanes;
  } else {
    way = way_on(from, to, drawing.bottoms[static_cast<size_t>(from.layer)]);
  }
  add_element(svg, "path",
              {{"class", "edge" + kind}, {"marker-end", "url(#tip" + kind + ")"}, {"d", way}});
}

// What its arrows say, once.
void add_relation(xml_node svg, const Drawing& drawing, size_t node) {
  std::string text;
  std::set<std::string_view> told;
  for (const Graph::Edge& edge : drawing.graph.edges) {
    if (edge.from != node || !is_drawn(drawing, edge) || !told.insert(edge.relation).second)
      continue;
    text += (text.empty() ? "" : ", ") + edge.relation;
  }
  if (text.empty()) return;
  const Box& box = drawing.boxes[node];
  add_text_element(svg, "text", cut_to(kLettersOfRelation, text),
                   {{"class", "relation"},
                    {"text-anchor", "end"},
                    {"x", std::to_string(box.middle() - kPadding)},
                    {"y", std::to_string(box.bottom() + kTrunk - 5)}});
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
  const std::string width = std::to_string(drawing.size.x);
  const std::string height = std::to_string(drawing.size.y);
  // Where the page is too narrow for that many side by side the style leaves it to the list.
  const xml_node box =
      add_element(parent, "div", {{"class", fmt::format("across-{}", drawing.across)}});
  const xml_node svg = add_element(
      box, "svg",
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
  int lane = 0;
  for (const Graph::Edge& edge : graph.edges) {
    if (is_drawn(drawing, edge)) add_edge(svg, drawing, edge, lane);
  }
  size_t left_out = graph.left_out;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!drawing.boxes[i].is_drawn()) {
      left_out += graph.nodes[i].count;
      continue;
    }
    add_relation(svg, drawing, i);
    add_node(svg, graph.nodes[i], drawing.boxes[i]);
  }
  if (left_out == 0) return;
  add_text_element(box, "p",
                   fmt::format("{} more are not drawn; the JSON report has all.", left_out),
                   {{"class", "quiet"}});
}

}  // namespace dlprobe::document
