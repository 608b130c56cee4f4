#include <algorithm>

#include "reports/model/sections.h"
#include "reports/model/stack_section.h"

namespace dlprobe {
namespace {

report::WaitNode graph_node_of(const WaitNode& node, const ReportSource& source) {
  report::WaitNode entry;
  entry.id = node.id;
  entry.label = source.sentences.text_of(node.label);
  entry.kind = node.is_thread ? report::NodeKind::kThread : report::NodeKind::kObject;
  if (!node.is_thread) return entry;
  if (node.process) {
    entry.pid = node.process->pid;
    entry.start_ticks = node.process->start_ticks;
  }
  entry.tid = node.tid;
  entry.role = node.role;
  entry.doing = doing_of(node, source);
  entry.at = node.at.transform(frame_of);
  return entry;
}

}  // namespace

report::Doing doing_of(const WaitNode& node, const ReportSource& source) {
  return {.activity = node.activity,
          .since = source.time.moment(node.since),
          .waits_for = report::if_any(source.sentences.text_of(node.waits_for)),
          .in_code = node.in_code.transform(frame_of)};
}

const WaitGraph* main_wait_graph(const Verdict& verdict) {
  const std::vector<WaitGraph>& graphs = verdict.wait_graphs;
  if (graphs.empty()) return nullptr;
  const auto hangs =
      std::ranges::find_if(graphs, [](const WaitGraph& graph) { return !graph.chain.empty(); });
  return hangs == graphs.end() ? &graphs.back() : &*hangs;
}

report::WaitGraph wait_graph_of(const WaitGraph& graph, const ReportSource& source) {
  report::WaitGraph result;
  result.run = as_count(graph.run);
  for (const WaitNode& node : graph.nodes)
    result.nodes.push_back(graph_node_of(node, source));
  for (const WaitEdge& edge : graph.edges)
    result.edges.push_back({.from = edge.from, .to = edge.to, .relation = edge.relation});
  result.chain = graph.chain;
  return result;
}

report::WaitGraph wait_graph_section(const ReportSource& source) {
  const WaitGraph* graph = main_wait_graph(source.verdict);
  return graph == nullptr ? report::WaitGraph() : wait_graph_of(*graph, source);
}

}  // namespace dlprobe
