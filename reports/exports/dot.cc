#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"
#include "reports/exports/replaced.h"
#include "reports/format.h"

namespace dlprobe {
namespace {

// A string of the dot language that shows as `text`. Backslashes are doubled, because they begin
// escapes (\n, \N); '&', because labels may hold character entities.
std::string dot_string(std::string_view text) {
  return '"' + replaced(text, {{'"', "\\\""}, {'\\', "\\\\"}, {'&', "&amp;"}}) + '"';
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
  Graph(const report::WaitGraph& graph, size_t index) : graph_(graph), index_(index) {}

  std::string text() {
    std::string out;
    for (const report::WaitNode& node : graph_.nodes)
      out += node_line(node);
    for (const report::WaitEdge& edge : graph_.edges)
      out += edge_line(edge);
    return out;
  }

 private:
  // By number: an id is hostile text.
  std::string name_of(const std::string& id) {
    const auto [place, is_new] = numbers_.try_emplace(id, numbers_.size());
    return fmt::format("g{}n{}", index_, place->second);
  }

  bool is_step_of_chain(const report::WaitEdge& edge) const {
    const std::vector<std::string>& chain = graph_.chain;
    for (size_t i = 1; i < chain.size(); ++i) {
      if (chain[i - 1] == edge.from && chain[i] == edge.to) return true;
    }
    return false;
  }

  std::string node_line(const report::WaitNode& node) {
    const std::vector<std::string>& chain = graph_.chain;
    const bool is_root_cause = !chain.empty() && chain.back() == node.id;
    const std::string activity = node.doing ? shown(node.doing->activity) : "";
    const std::string label =
        label_of({shown(node.label), activity, node.doing ? place_text(node.doing->in_code) : "",
                  is_root_cause ? "root cause" : ""});
    std::string style;
    if (std::ranges::count(chain, node.id) > 0) style = ", color=red";
    if (is_root_cause) style += ", penwidth=3";
    return fmt::format("  {} [shape={}, style=filled, fillcolor={}, label={}{}];\n",
                       name_of(node.id), node.kind == report::NodeKind::kThread ? "box" : "ellipse",
                       color_of(activity), label, style);
  }

  std::string edge_line(const report::WaitEdge& edge) {
    return fmt::format("  {} -> {} [label={}{}];\n", name_of(edge.from), name_of(edge.to),
                       dot_string(shown(edge.relation)),
                       is_step_of_chain(edge) ? ", color=red, penwidth=2" : "");
  }

  const report::WaitGraph& graph_;
  size_t index_;
  std::map<std::string, size_t> numbers_;
};

}  // namespace

std::string render_dot(const report::Report& report) {
  std::string out =
      "digraph dlprobe {\n  rankdir=LR;\n  labelloc=t;\n  node [fontname=\"sans-serif\"];\n";
  out += fmt::format("  label={};\n", dot_string(shown(report.summary.headline)));
  size_t index = 0;
  out += Graph(report.wait_graph, index++).text();
  for (const report::Run& run : report.runs) {
    if (run.wait_graph) out += Graph(*run.wait_graph, index++).text();
  }
  return out + "}\n";
}

}  // namespace dlprobe
