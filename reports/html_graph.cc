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
constexpr int kGapX = 110;
constexpr int kGapY = 22;
constexpr size_t kLettersInALine = 30;
constexpr size_t kMostLines = 3;

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

/// The part of the graph that is drawn, in layers from left to right.
struct Drawing {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  size_t left_out = 0;
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
  for (std::string& line : lines) {
    if (columns_of(line) <= kLettersInALine + 2) continue;
    std::string cut;
    for (std::string_view rest = line; !rest.empty() && columns_of(cut) < kLettersInALine;) {
      const size_t bytes = decode_utf8(rest).bytes;
      cut += rest.substr(0, bytes);
      rest.remove_prefix(bytes);
    }
    line = cut + "…";
  }
  return lines;
}

int left_of(const Node& node) {
  return 10 + node.layer * (kNodeWidth + kGapX);
}
int top_of(const Node& node) {
  return 10 + node.row * (kNodeHeight + kGapY);
}

std::string node_svg(const Node& node) {
  const int x = left_of(node);
  const int y = top_of(node);
  std::string text = node.label;
  if (!node.activity.empty()) text += ", " + node.activity;
  std::string out = fmt::format("<g><title>{}</title>",
                                escape_html(text + (node.code.empty() ? "" : ", " + node.code)));
  out += fmt::format(R"(<rect class="node{}" x="{}" y="{}" width="{}" height="{}" rx="{}"/>)",
                     node.in_chain ? " chain" : "", x, y, kNodeWidth, kNodeHeight,
                     node.is_thread ? 4 : 30);
  int line_y = y + 20;
  for (const std::string& line : lines_of(text)) {
    out += fmt::format(R"(<text x="{}" y="{}">{}</text>)", x + 10, line_y, escape_html(line));
    line_y += 16;
  }
  return out + "</g>\n";
}

std::string edge_svg(const Drawing& drawing, const Edge& edge) {
  const Node& from = drawing.nodes[edge.from];
  const Node& to = drawing.nodes[edge.to];
  const bool is_forward = to.layer > from.layer;
  const int x1 = left_of(from) + kNodeWidth;
  const int y1 = top_of(from) + kNodeHeight / 2;
  const int x2 = is_forward ? left_of(to) : left_of(to) + kNodeWidth;
  const int y2 = top_of(to) + kNodeHeight / 2 + (is_forward ? 0 : 12);
  const int bend = is_forward ? (x2 - x1) / 2 : kGapX / 2;
  const std::string kind = edge.in_chain ? "-chain" : "";
  return fmt::format(
      "<path class=\"edge{0}\" marker-end=\"url(#tip{0})\" d=\"M{1} {2}C{3} {2} {4} {5} {6} {5}\"/>"
      "<text class=\"relation\" text-anchor=\"middle\" x=\"{7}\" y=\"{8}\">{9}</text>\n",
      kind, x1, y1, x1 + bend, is_forward ? x2 - bend : x2 + bend, y2, x2, (x1 + x2) / 2,
      (y1 + y2) / 2 - 6, escape_html(edge.relation));
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
  int width = 0;
  int height = 0;
  for (const Node& node : drawing.nodes) {
    width = std::max(width, left_of(node) + kNodeWidth + kGapX / 2 + 10);
    height = std::max(height, top_of(node) + kNodeHeight + 10);
  }
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Drawing of who waits for "
      "whom\"><svg class=\"graph\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "role=\"img\" aria-label=\"The same as the list below: {2} threads and objects\"><defs>{3}{4}"
      "</defs>\n",
      width, height, drawing.nodes.size(), tip(""), tip("-chain"));
  for (const Edge& edge : drawing.edges)
    out += edge_svg(drawing, edge);
  for (const Node& node : drawing.nodes)
    out += node_svg(node);
  out += "</svg></div>\n";
  if (drawing.left_out > 0)
    out += fmt::format("<p class=\"quiet\">{} more are not drawn; the JSON report has all.</p>\n",
                       drawing.left_out);
  return out + chain_words(graph);
}

}  // namespace dlprobe
