// The drawing of who waits for whom. Threads and objects that wait alike are one node: eight
// workers, each of them at a lock of its own, say no more than one does.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/path_name.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

constexpr size_t kMostDrawn = 60;
// A report may hold anything: beyond these nothing is compared.
constexpr size_t kMostNodes = 1000;
constexpr size_t kMostEdges = 5000;
constexpr int kMostRounds = 64;  ///< until all that differ are told apart
constexpr int kMostPartings = 8;

/// The wait graph of a report, by index; the chain first, then what it touches, then the rest.
struct Waits {
  struct Edge {
    size_t from = 0;
    size_t to = 0;
    std::string relation;
  };
  std::vector<const report::WaitNode*> nodes;
  std::vector<Edge> edges;
  std::vector<size_t> chain;
  size_t left_out = 0;  ///< nodes
};

Waits waits_from(const report::WaitGraph& graph) {
  std::map<std::string_view, const report::WaitNode*> known;
  for (const report::WaitNode& node : graph.nodes)
    known.emplace(node.id, &node);
  Waits waits;
  std::map<std::string_view, size_t> places;
  std::set<std::string_view> left_out;
  const auto add = [&](std::string_view id) {
    const auto node = known.find(id);
    if (node == known.end() || places.contains(id)) return;
    if (waits.nodes.size() == kMostNodes) {
      left_out.insert(id);
      return;
    }
    places.emplace(id, waits.nodes.size());
    waits.nodes.push_back(node->second);
  };
  for (const std::string& id : graph.chain) {
    add(id);
    if (const auto place = places.find(id); place != places.end())
      waits.chain.push_back(place->second);
  }
  const std::set<std::string_view> chain(graph.chain.begin(), graph.chain.end());
  for (const bool is_near : {true, false}) {
    for (const auto& [from, to, relation] : graph.edges) {
      if ((chain.contains(from) || chain.contains(to)) != is_near) continue;
      add(from);
      add(to);
    }
  }
  for (const auto& [from, to, relation] : graph.edges) {
    const auto begin = places.find(from);
    const auto end = places.find(to);
    if (begin == places.end() || end == places.end() || waits.edges.size() == kMostEdges) continue;
    waits.edges.push_back({.from = begin->second, .to = end->second, .relation = shown(relation)});
  }
  waits.left_out = left_out.size();
  return waits;
}

// The words and numbers of a text, and what is between them.
std::vector<std::string_view> pieces_of(std::string_view text) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && is_word(text[end]) == is_word(text[begin]))
      ++end;
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

// "thread # of worker #": the label without the numbers of the id, by which only this one is known.
std::string kind_of_label(const report::WaitNode& node) {
  const std::vector<std::string_view> own = pieces_of(node.id);
  std::string kind;
  for (const std::string_view piece : pieces_of(node.label)) {
    const bool has_digit = piece.find_first_of("0123456789") != std::string_view::npos;
    kind += has_digit && std::ranges::find(own, piece) != own.end() ? "#" : piece;
  }
  return kind;
}

// What can be seen of a node by itself.
std::string look_of(const report::WaitNode& node) {
  std::string look = fmt::format("{}|{}", shown(node.kind), kind_of_label(node));
  if (!node.doing) return look;
  return look + fmt::format("|{}|{}|{}", shown(node.doing->activity),
                            without_numbers(node.doing->waits_for.value_or("")),
                            place_text(node.doing->in_code));
}

/// Of each node the class of those that are drawn as one.
using Classes = std::vector<size_t>;

/// Numbers for keys, from 0 on, in the order in which they are first asked for.
template <class Key>
class Numbers {
 public:
  size_t of(const Key& key) { return numbers_.try_emplace(key, numbers_.size()).first->second; }
  size_t count() const { return numbers_.size(); }

 private:
  std::map<Key, size_t> numbers_;
};

/// Puts together what looks alike and whose neighbours are alike, likewise theirs.
class Folding {
 public:
  explicit Folding(const Waits& waits) : waits_(waits), is_alone_(waits.nodes.size()) {}

  /// Nothing is folded where it would take too long.
  Classes classes() {
    for (int round = 0; round < kMostPartings; ++round) {
      const Classes classes = alike();
      if (classes.empty()) break;
      if (!part(classes)) return classes;
    }
    Classes each;
    for (size_t i = 0; i < waits_.nodes.size(); ++i)
      each.push_back(i);
    return each;
  }

 private:
  using Neighbours = std::set<std::tuple<bool, std::string_view, size_t>>;

  // Empty where the rounds do not suffice.
  Classes alike() const {
    Classes classes(waits_.nodes.size());
    Numbers<std::pair<std::string, size_t>> looks;
    for (size_t i = 0; i < classes.size(); ++i)
      classes[i] = looks.of({look_of(*waits_.nodes[i]), is_alone_[i] ? i + 1 : 0});
    size_t count = looks.count();
    for (int round = 0; round < kMostRounds; ++round) {
      std::vector<Neighbours> neighbours(classes.size());
      for (const Waits::Edge& edge : waits_.edges) {
        neighbours[edge.from].emplace(true, edge.relation, classes[edge.to]);
        neighbours[edge.to].emplace(false, edge.relation, classes[edge.from]);
      }
      Numbers<std::pair<size_t, Neighbours>> numbers;
      for (size_t i = 0; i < classes.size(); ++i)
        classes[i] = numbers.of({classes[i], std::move(neighbours[i])});
      if (numbers.count() == count) return classes;
      count = numbers.count();
    }
    return {};
  }

  // Sets apart the members of classes that may not be folded; whether there was any: two steps of
  // the chain, and threads that wait for one another by way of others that are folded, too. Drawn
  // as one, a circle of two locks would be a thread that waits for itself.
  bool part(const Classes& classes) {
    std::vector<size_t> members(classes.size());
    for (const size_t each : classes)
      ++members[each];
    std::set<std::pair<size_t, size_t>> folded;
    for (const Waits::Edge& edge : waits_.edges) {
      const std::pair between(classes[edge.from], classes[edge.to]);
      if (members[between.first] > 1 && members[between.second] > 1) folded.insert(between);
    }
    std::set<size_t> to_part = in_circles(std::move(folded));
    std::map<size_t, size_t> steps;
    for (const size_t step : waits_.chain) {
      const auto [first, is_new] = steps.try_emplace(classes[step], step);
      if (!is_new && first->second != step) to_part.insert(classes[step]);
    }
    for (size_t i = 0; i < classes.size(); ++i) {
      if (to_part.contains(classes[i])) is_alone_[i] = true;
    }
    return !to_part.empty();
  }

  // What is left when all is taken away that nothing leads to, or that leads nowhere.
  static std::set<size_t> in_circles(std::set<std::pair<size_t, size_t>> edges) {
    while (true) {
      std::set<size_t> begins;
      std::set<size_t> ends;
      for (const auto& [from, to] : edges) {
        begins.insert(from);
        ends.insert(to);
      }
      const size_t taken = std::erase_if(edges, [&](const auto& edge) {
        return !ends.contains(edge.first) || !begins.contains(edge.second);
      });
      if (taken == 0) return begins;
    }
  }

  const Waits& waits_;
  std::vector<bool> is_alone_;
};

std::string activity_of(const report::WaitNode& node, const report::Report& report) {
  if (!node.doing || node.doing->activity == Activity::kUnknown) return "";
  return shown(node.doing->activity) + since_text(*node.doing, report, report.wait_graph.run);
}

// With the name of the file alone: the list has its path.
std::string place_of(const report::WaitNode& node) {
  if (!node.doing || !node.doing->in_code) return "";
  report::Frame frame = *node.doing->in_code;
  frame.file = std::string(base_name(frame.file));
  return place_text(frame);
}

// Where the chain ends, unless it is a circle.
bool is_root_cause(const report::WaitGraph& graph, const std::string& id) {
  return !graph.chain.empty() && graph.chain.back() == id &&
         std::ranges::count(graph.chain, id) == 1;
}

}  // namespace

Graph graph_of(const report::Report& report) {
  const Waits waits = waits_from(report.wait_graph);
  const Classes classes = Folding(waits).classes();
  const std::set<size_t> chain(waits.chain.begin(), waits.chain.end());
  Graph graph = {.left_out = waits.left_out};
  // Of a class its first is drawn: the chain comes first, so it is the step of the chain.
  std::map<size_t, size_t> places;
  for (size_t i = 0; i < waits.nodes.size(); ++i) {
    const report::WaitNode& node = *waits.nodes[i];
    const auto [place, is_new] = places.try_emplace(classes[i], graph.nodes.size());
    if (!is_new && place->second < kMostDrawn) ++graph.nodes[place->second].count;
    if (!is_new || graph.nodes.size() == kMostDrawn) {
      if (place->second >= kMostDrawn) ++graph.left_out;
      continue;
    }
    graph.nodes.push_back({.label = shown(node.label),
                           .activity = activity_of(node, report),
                           .place = place_of(node),
                           .is_thread = node.kind == report::NodeKind::kThread,
                           .in_chain = chain.contains(i),
                           .is_root_cause = is_root_cause(report.wait_graph, node.id)});
  }
  std::set<std::pair<size_t, size_t>> steps;
  for (size_t i = 1; i < waits.chain.size(); ++i)
    steps.emplace(places.at(classes[waits.chain[i - 1]]), places.at(classes[waits.chain[i]]));
  std::set<std::tuple<size_t, size_t, std::string_view>> drawn;
  for (const Waits::Edge& edge : waits.edges) {
    const size_t from = places.at(classes[edge.from]);
    const size_t to = places.at(classes[edge.to]);
    if (from >= kMostDrawn || to >= kMostDrawn) continue;
    if (!drawn.emplace(from, to, edge.relation).second) continue;
    graph.edges.push_back({.from = from,
                           .to = to,
                           .relation = edge.relation,
                           .in_chain = steps.contains({from, to})});
  }
  return graph;
}

}  // namespace dlprobe::document
