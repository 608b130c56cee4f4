#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "reports/document/frame_text.h"
#include "reports/model/report.h"

namespace dlprobe {
namespace {

// A string of the dot language that shows as `text`. Backslashes are doubled, because they begin
// escapes (\n, \N); '&', because labels may hold character entities.
std::string dot_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result + '"';
}

// Two lines of a label, each escaped.
std::string label_of(const std::vector<std::string>& lines) {
  std::string label = "\"";
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    if (label.size() > 1) label += "\\n";
    const std::string text = dot_string(line);
    label.append(text, 1, text.size() - 2);
  }
  return label + '"';
}

std::string color_of(const std::string& activity) {
  if (activity == "stuck" || activity == "spinning") return "lightpink";
  if (activity == "stopped" || activity == "blocked in the kernel") return "lightyellow";
  if (activity == "running") return "palegreen";
  return "white";
}

class Graph {
 public:
  Graph(const Json& graph, size_t index) : graph_(graph), index_(index) {
    for (const Json& id : items_at(graph, "chain"))
      chain_.push_back(value_with_unit(id, ""));
  }

  std::string text() {
    std::string out;
    for (const Json& node : items_at(graph_, "nodes"))
      out += node_line(node);
    for (const Json& edge : items_at(graph_, "edges"))
      out += edge_line(edge);
    return out;
  }

 private:
  // By number: an id is hostile text.
  std::string name_of(const std::string& id) {
    const auto [place, is_new] = numbers_.try_emplace(id, numbers_.size());
    return fmt::format("g{}n{}", index_, place->second);
  }

  bool is_in_chain(const std::string& id) const {
    return std::ranges::find(chain_, id) != chain_.end();
  }

  bool is_step_of_chain(const std::string& from, const std::string& to) const {
    for (size_t i = 1; i < chain_.size(); ++i) {
      if (chain_[i - 1] == from && chain_[i] == to) return true;
    }
    return false;
  }

  std::string node_line(const Json& node) {
    const std::string id = text_at(node, "id");
    const bool is_thread = text_at(node, "kind") == "thread";
    const bool is_root_cause = !chain_.empty() && chain_.back() == id;
    const std::string activity = text_at(node, "activity");
    const std::string label =
        label_of({text_at(node, "label"), activity, place_text(object_at(node, "in_code")),
                  is_root_cause ? "root cause" : ""});
    std::string style;
    if (is_in_chain(id)) style = ", color=red";
    if (is_root_cause) style += ", penwidth=3";
    return fmt::format("  {} [shape={}, style=filled, fillcolor={}, label={}{}];\n", name_of(id),
                       is_thread ? "box" : "ellipse", color_of(activity), label, style);
  }

  std::string edge_line(const Json& edge) {
    const std::string from = text_at(edge, "from");
    const std::string to = text_at(edge, "to");
    return fmt::format("  {} -> {} [label={}{}];\n", name_of(from), name_of(to),
                       dot_string(text_at(edge, "relation")),
                       is_step_of_chain(from, to) ? ", color=red, penwidth=2" : "");
  }

  const Json& graph_;
  size_t index_;
  std::vector<std::string> chain_;
  std::map<std::string, size_t> numbers_;
};

}  // namespace

std::string render_dot(const Json& report) {
  const std::string headline = text_at(object_at(report, "summary"), "headline");
  std::string out =
      "digraph dlprobe {\n  rankdir=LR;\n  labelloc=t;\n  node [fontname=\"sans-serif\"];\n";
  out += fmt::format("  label={};\n", dot_string(headline));
  size_t index = 0;
  out += Graph(object_at(report, "wait_graph"), index++).text();
  for (const Json& run : items_at(report, "runs")) {
    const Json& graph = object_at(run, "wait_graph");
    if (!graph.empty()) out += Graph(graph, index++).text();
  }
  return out + "}\n";
}

}  // namespace dlprobe
