#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "lib/base/utf8.h"
#include "reports/frame_text.h"
#include "reports/html_parts.h"
#include "reports/markup.h"
#include "reports/text_layout.h"

namespace dlprobe {
namespace {

constexpr size_t kMostNodes = 60;
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

struct Node {
  std::string id;
  std::string label;
  std::string activity;
  std::string code;
  bool is_thread = false;
  bool in_chain = false;
  int layer = 0;
  int row = 0;
};

struct Edge {
  size_t from = 0;
  size_t to = 0;
  std::string relation;
  bool in_chain = false;
};

/// The part of the graph that is drawn, in layers.
struct Drawing {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  size_t left_out = 0;
  /// The layers stand below each other: a chain then fits a narrow screen.
  bool is_upright = false;
};

std::vector<std::string> ids_of_chain(const Json& graph) {
  std::vector<std::string> ids;
  for (const Json& id : items_at(graph, "chain"))
    ids.push_back(value_with_unit(id, ""));
  return ids;
}

// The chain first, then what it touches, then the rest.
Drawing select(const Json& graph) {
  const std::vector<std::string> chain = ids_of_chain(graph);
  std::map<std::string, const Json*> by_id;
  std::vector<std::string> order = chain;
  for (const Json& node : items_at(graph, "nodes"))
    by_id.emplace(text_at(node, "id"), &node);
  for (const Json& edge : items_at(graph, "edges")) {
    const bool touches = std::ranges::count(chain, text_at(edge, "from")) > 0 ||
                         std::ranges::count(chain, text_at(edge, "to")) > 0;
    if (!touches) continue;
    order.push_back(text_at(edge, "from"));
    order.push_back(text_at(edge, "to"));
  }
  for (const Json& edge : items_at(graph, "edges")) {
    order.push_back(text_at(edge, "from"));
    order.push_back(text_at(edge, "to"));
  }
  Drawing drawing;
  std::map<std::string, size_t> places;
  for (const std::string& id : order) {
    const auto found = by_id.find(id);
    if (found == by_id.end() || places.contains(id)) continue;
    if (drawing.nodes.size() == kMostNodes) {
      places.emplace(id, SIZE_MAX);
      ++drawing.left_out;
      continue;
    }
    places.emplace(id, drawing.nodes.size());
    const Json& node = *found->second;
    drawing.nodes.push_back({.id = id,
                             .label = text_at(node, "label"),
                             .activity = text_at(node, "activity"),
                             .code = place_text(object_at(node, "in_code")),
                             .is_thread = text_at(node, "kind") == "thread",
                             .in_chain = std::ranges::count(chain, id) > 0});
  }
  for (const Json& edge : items_at(graph, "edges")) {
    const auto from = places.find(text_at(edge, "from"));
    const auto to = places.find(text_at(edge, "to"));
    if (from == places.end() || to == places.end()) continue;
    if (from->second == SIZE_MAX || to->second == SIZE_MAX) continue;
    const auto step = std::ranges::find(chain, from->first);
    const bool in_chain =
        step != chain.end() && std::next(step) != chain.end() && *std::next(step) == to->first;
    drawing.edges.push_back({.from = from->second,
                             .to = to->second,
                             .relation = text_at(edge, "relation"),
                             .in_chain = in_chain});
  }
  return drawing;
}

// The node's layer, and of those that it leads to and that have none yet, one further each.
void spread(const Drawing& drawing, size_t start, int at, std::vector<int>& layer) {
  std::deque<size_t> next = {start};
  layer[start] = at;
  while (!next.empty()) {
    const size_t node = next.front();
    next.pop_front();
    for (const Edge& edge : drawing.edges) {
      if (edge.from != node || layer[edge.to] >= 0) continue;
      layer[edge.to] = layer[node] + 1;
      next.push_back(edge.to);
    }
  }
}

// How many steps each is from the beginning of the chain; what only leads there stands left of its
// target.
void set_layers(Drawing& drawing) {
  const size_t count = drawing.nodes.size();
  std::vector<int> layer(count, -1);
  if (count > 0) spread(drawing, 0, 0, layer);
  for (size_t i = 0; i < count; ++i) {
    if (layer[i] >= 0) continue;
    int target = -1;
    for (const Edge& edge : drawing.edges) {
      if (edge.from == i) target = std::max(target, layer[edge.to]);
    }
    spread(drawing, i, std::max(target - 1, 0), layer);
  }
  std::map<int, int> rows;
  for (size_t i = 0; i < count; ++i) {
    drawing.nodes[i].layer = layer[i];
    drawing.nodes[i].row = rows[layer[i]]++;
  }
  drawing.is_upright =
      std::ranges::all_of(rows, [](const auto& each) { return each.second <= kMostAcross; });
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
std::vector<std::string> lines_of(const std::string& text) {
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

int left_of(const Drawing& drawing, const Node& node) {
  return kMargin + (drawing.is_upright ? node.row * (kNodeWidth + kGapOfNodes)
                                       : node.layer * (kNodeWidth + kGapOfLayers));
}
int top_of(const Drawing& drawing, const Node& node) {
  return kMargin + (drawing.is_upright ? node.layer * (kNodeHeight + kHeightOfArrow)
                                       : node.row * (kNodeHeight + kGapOfNodes));
}

std::string node_svg(const Drawing& drawing, const Node& node) {
  const int x = left_of(drawing, node);
  const int y = top_of(drawing, node);
  std::string text = node.label;
  if (!node.activity.empty()) text += ", " + node.activity;
  std::string out = fmt::format("<g><title>{}</title>",
                                escape_html(text + (node.code.empty() ? "" : ", " + node.code)));
  out += fmt::format(R"(<rect class="node{}" x="{}" y="{}" width="{}" height="{}" rx="{}"/>)",
                     node.in_chain ? " chain" : "", x, y, kNodeWidth, kNodeHeight,
                     node.is_thread ? 4 : 16);
  int line_y = y + 20;
  for (const std::string& line : lines_of(text)) {
    out += fmt::format(R"(<text x="{}" y="{}">{}</text>)", x + 10, line_y, escape_html(line));
    line_y += 16;
  }
  return out + "</g>\n";
}

struct Point {
  int x = 0;
  int y = 0;
};

// The middle of the side of a node that looks to the next layer (or to the layer before).
Point side_of(const Drawing& drawing, const Node& node, bool is_next) {
  const int x = left_of(drawing, node);
  const int y = top_of(drawing, node);
  if (drawing.is_upright) return {x + kNodeWidth / 2, y + (is_next ? kNodeHeight : 0)};
  return {x + (is_next ? kNodeWidth : 0), y + kNodeHeight / 2};
}

// An arrow back, around the nodes between: right of them in an upright drawing, else below them.
std::string way_back(const Drawing& drawing, const Node& from, const Node& to, Point lane) {
  Point begin{left_of(drawing, from) + kNodeWidth, top_of(drawing, from) + kNodeHeight / 2};
  Point end{left_of(drawing, to) + kNodeWidth, top_of(drawing, to) + kNodeHeight / 2};
  if (drawing.is_upright)
    return fmt::format("M{} {}C{} {} {} {} {} {}", begin.x, begin.y, lane.x, begin.y, lane.x, end.y,
                       end.x, end.y);
  begin = {begin.x - kNodeWidth / 2, begin.y + kNodeHeight / 2};
  end = {end.x - kNodeWidth / 2, end.y + kNodeHeight / 2};
  return fmt::format("M{} {}C{} {} {} {} {} {}", begin.x, begin.y, begin.x, lane.y, end.x, lane.y,
                     end.x, end.y);
}

std::string way_on(const Drawing& drawing, Point begin, Point end) {
  const Point middle{(begin.x + end.x) / 2, (begin.y + end.y) / 2};
  if (drawing.is_upright)
    return fmt::format("M{} {}C{} {} {} {} {} {}", begin.x, begin.y, begin.x, middle.y, end.x,
                       middle.y, end.x, end.y);
  return fmt::format("M{} {}C{} {} {} {} {} {}", begin.x, begin.y, middle.x, begin.y, middle.x,
                     end.y, end.x, end.y);
}

// `size` is that of the drawing without the lane of the arrows that lead back.
std::string edge_svg(const Drawing& drawing, const Edge& edge, Point size) {
  const Node& from = drawing.nodes[edge.from];
  const Node& to = drawing.nodes[edge.to];
  const bool is_forward = to.layer > from.layer;
  const Point begin = side_of(drawing, from, /*is_next=*/true);
  const Point end = side_of(drawing, to, /*is_next=*/false);
  const Point middle{(begin.x + end.x) / 2, (begin.y + end.y) / 2};
  std::string way;
  Point word;
  if (is_forward) {
    way = way_on(drawing, begin, end);
    word = drawing.is_upright ? Point{middle.x + 8, middle.y + 4} : Point{middle.x, middle.y - 6};
  } else {
    way = way_back(drawing, from, to, {size.x + kLaneRight, size.y + kLaneBelow});
    word = drawing.is_upright
               ? Point{size.x + 4, side_of(drawing, from, true).y - kNodeHeight / 2 + 16}
               : Point{middle.x, size.y + kLaneBelow * 3 / 4 - 6};
  }
  const std::string_view anchor = drawing.is_upright ? "start" : "middle";
  const std::string kind = edge.in_chain ? "-chain" : "";
  return fmt::format(
      "<path class=\"edge{0}\" marker-end=\"url(#tip{0})\" d=\"{1}\"/>"
      "<text class=\"relation\" text-anchor=\"{2}\" x=\"{3}\" y=\"{4}\">{5}</text>\n",
      kind, way, anchor, word.x, word.y, escape_html(cut_to(kLettersOfRelation, edge.relation)));
}

std::string tip(std::string_view kind) {
  return fmt::format(
      "<marker id=\"tip{0}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" "
      "markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip{0}\" "
      "d=\"M0 0L8 4L0 8Z\"/></marker>",
      kind);
}

// "<strong>worker 42</strong> (stuck for 3 s, at train.py:13)".
std::string words_of_node(const Json& graph, const std::string& id) {
  std::string label = id;
  std::string details;
  for (const Json& node : items_at(graph, "nodes")) {
    if (text_at(node, "id") != id) continue;
    label = text_at(node, "label");
    details = text_at(node, "activity");
    const std::string code = place_text(object_at(node, "in_code"));
    if (!code.empty()) details += (details.empty() ? "" : ", ") + code;
  }
  return "<strong>" + escape_html(label) + "</strong>" +
         (details.empty() ? "" : " (" + escape_html(details) + ")");
}

std::string relation_of(const Json& graph, const std::string& from, const std::string& to) {
  std::string relation;
  for (const Json& edge : items_at(graph, "edges")) {
    if (text_at(edge, "from") == from && text_at(edge, "to") == to)
      relation = text_at(edge, "relation");
  }
  return relation;
}

// The same in words, one step on each line.
std::string chain_words(const Json& graph) {
  const std::vector<std::string> chain = ids_of_chain(graph);
  if (chain.empty()) return "";
  std::string out = "<ol>";
  for (size_t i = 0; i < chain.size(); ++i) {
    const bool is_last = i + 1 == chain.size();
    const std::string relation = is_last ? "" : relation_of(graph, chain[i], chain[i + 1]);
    out += fmt::format("<li>{}{}</li>", words_of_node(graph, chain[i]),
                       relation.empty() ? "" : ": " + escape_html(relation));
  }
  return out + "</ol>\n";
}

}  // namespace

std::string html_wait_graph(const Json& report) {
  const Json& graph = object_at(report, "wait_graph");
  Drawing drawing = select(graph);
  if (drawing.nodes.size() < 2 || drawing.edges.empty()) return chain_words(graph);
  set_layers(drawing);
  Point size;
  for (const Node& node : drawing.nodes) {
    size.x = std::max(size.x, left_of(drawing, node) + kNodeWidth);
    size.y = std::max(size.y, top_of(drawing, node) + kNodeHeight);
  }
  const bool has_back = std::ranges::any_of(drawing.edges, [&](const Edge& edge) {
    return drawing.nodes[edge.to].layer <= drawing.nodes[edge.from].layer;
  });
  const int right = drawing.is_upright && has_back ? kLaneRight * 3 / 4 : 0;
  const int below = !drawing.is_upright && has_back ? kLaneBelow * 3 / 4 : 0;
  std::string out = fmt::format(
      "<div class=\"scroll\"><svg class=\"graph\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"Drawing of who waits for whom; the same "
      "as the list below: {2} threads and objects\"><defs>{3}{4}</defs>\n",
      size.x + right + kMargin, size.y + below + kMargin, drawing.nodes.size(), tip(""),
      tip("-chain"));
  for (const Edge& edge : drawing.edges)
    out += edge_svg(drawing, edge, size);
  for (const Node& node : drawing.nodes)
    out += node_svg(drawing, node);
  out += "</svg></div>\n";
  if (drawing.left_out > 0)
    out += fmt::format("<p class=\"quiet\">{} more are not drawn; the JSON report has all.</p>\n",
                       drawing.left_out);
  return out + chain_words(graph);
}

}  // namespace dlprobe
