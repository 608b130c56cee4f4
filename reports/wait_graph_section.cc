#include <algorithm>

#include "reports/sections.h"
#include "reports/stack_json.h"

namespace dlprobe {
namespace {

Json node_json(const WaitNode& node, const TimeOfDay& time) {
  Json entry = {{"id", json_text(node.id)},
                {"label", json_text(node.label)},
                {"kind", node.is_thread ? "thread" : "object"}};
  if (!node.is_thread) return entry;
  if (node.process) {
    entry["pid"] = node.process->pid;
    entry["start_ticks"] = node.process->start_ticks;
  }
  entry["tid"] = node.tid;
  entry["role"] = to_string(node.role);
  put_activity(entry, node, time);
  if (node.at) entry["at"] = frame_json(*node.at);
  return entry;
}

}  // namespace

void put_activity(Json& entry, const WaitNode& node, const TimeOfDay& time) {
  entry["activity"] = to_string(node.activity);
  if (node.since) time.put(entry, "since", *node.since);
  if (!node.waits_for.empty()) entry["waits_for"] = json_text(node.waits_for);
  if (node.in_code) entry["in_code"] = frame_json(*node.in_code);
}

const WaitGraph* main_wait_graph(const Verdict& verdict) {
  const std::vector<WaitGraph>& graphs = verdict.wait_graphs;
  if (graphs.empty()) return nullptr;
  const auto hangs =
      std::ranges::find_if(graphs, [](const WaitGraph& graph) { return !graph.chain.empty(); });
  return hangs == graphs.end() ? &graphs.back() : &*hangs;
}

Json wait_graph_json(const WaitGraph& graph, const TimeOfDay& time) {
  Json nodes = Json::array();
  for (const WaitNode& node : graph.nodes)
    nodes.push_back(node_json(node, time));
  Json edges = Json::array();
  for (const WaitEdge& edge : graph.edges) {
    edges.push_back({{"from", json_text(edge.from)},
                     {"to", json_text(edge.to)},
                     {"relation", json_text(edge.relation)}});
  }
  return {{"run", graph.run},
          {"nodes", std::move(nodes)},
          {"edges", std::move(edges)},
          {"chain", json_texts(graph.chain)}};
}

Json wait_graph_section(const ReportSource& source) {
  const WaitGraph* graph = main_wait_graph(source.verdict);
  if (graph != nullptr) return wait_graph_json(*graph, source.time);
  return {{"nodes", Json::array()}, {"edges", Json::array()}, {"chain", Json::array()}};
}

}  // namespace dlprobe
