// Who waits for whom, what each process does, and the processes as a table.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "reports/document/alike_waits.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

constexpr size_t kMostNodes = 60;
constexpr size_t kMostPidsInALine = 16;
constexpr size_t kMostExits = 12;
constexpr size_t kMostInTable = 500;

// When that run ended; where it does not say so, the whole examination.
std::optional<double> end_of_run(const Json& report, const std::optional<double>& index) {
  for (const Json& run : items_at(report, "runs")) {
    if (!index || number_at(run, "index") != index) continue;
    const auto started = number_at(run, "started_boottime_ns");
    const auto duration = number_at(run, "duration_s");
    if (started && duration) return *started + *duration * static_cast<double>(kSecond);
  }
  return number_at(object_at(report, "invocation"), "ended_boottime_ns");
}

// How long it had stood there when the watch of its run ended; "" where that is not known.
std::string since_text(const Json& entry, const Json& report, const std::optional<double>& run) {
  const auto since = number_at(entry, "since_boottime_ns");
  const auto end = end_of_run(report, run);
  if (!since || !end || !(*end >= *since) || *end - *since > 9e18) return "";
  return " for " + format_duration(std::chrono::nanoseconds(static_cast<int64_t>(*end - *since)));
}

const Json* find_wait_node(const Json& graph, const std::string& id) {
  for (const Json& node : items_at(graph, "nodes")) {
    if (text_at(node, "id") == id) return &node;
  }
  return nullptr;
}

std::string relation_between(const Json& graph, const std::string& from, const std::string& to) {
  for (const Json& edge : items_at(graph, "edges")) {
    if (text_at(edge, "from") == from && text_at(edge, "to") == to)
      return text_at(edge, "relation");
  }
  return "then";
}

// "worker 4711, stuck for 2.0 s, at train.py:12 in __getitem__".
Spans node_spans(const Json& node, const Json& report) {
  std::string doing = text_at(node, "activity");
  if (doing == "unknown") doing.clear();
  const auto run = number_at(object_at(report, "wait_graph"), "run");
  if (!doing.empty()) doing = ", " + doing + since_text(node, report, run);
  std::string place = place_text(object_at(node, "in_code"));
  if (place.empty()) place = frame_text(object_at(node, "at"));
  return spans(strong(or_dash(text_at(node, "label"))), doing,
               place.empty() ? "" : ", at " + place);
}

std::vector<std::string> ids_of_chain(const Json& graph) {
  std::vector<std::string> ids;
  for (const Json& id : items_at(graph, "chain"))
    ids.push_back(value_with_unit(id, ""));
  return ids;
}

List chain_of(const Json& report) {
  const Json& graph = object_at(report, "wait_graph");
  const std::vector<std::string> ids = ids_of_chain(graph);
  List list = {.kind = ListKind::kSteps};
  std::set<std::string> seen;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Json* node = find_wait_node(graph, ids[i]);
    const std::string relation = i == 0 ? "" : relation_between(graph, ids[i - 1], ids[i]) + " ";
    if (!seen.insert(ids[i]).second) {
      list.add(relation, strong(node == nullptr ? ids[i] : text_at(*node, "label")),
               "  <-- again: a circle");
    } else {
      list.add(relation, node == nullptr ? spans(strong(ids[i])) : node_spans(*node, report),
               i + 1 == ids.size() ? "  <-- the root cause" : "");
    }
  }
  return list;
}

// The chain first, then what it touches, then the rest.
std::vector<std::string> order_of_nodes(const Json& graph, const std::vector<std::string>& chain) {
  std::vector<std::string> order = chain;
  std::vector<std::string> rest;
  for (const Json& edge : items_at(graph, "edges")) {
    const std::string from = text_at(edge, "from");
    const std::string to = text_at(edge, "to");
    const bool touches = std::ranges::count(chain, from) + std::ranges::count(chain, to) > 0;
    for (const std::string& id : {from, to})
      (touches ? order : rest).push_back(id);
  }
  order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

Graph graph_of(const Json& report) {
  const Json& json = object_at(report, "wait_graph");
  const std::vector<std::string> chain = ids_of_chain(json);
  std::map<std::string, const Json*> by_id;
  for (const Json& node : items_at(json, "nodes"))
    by_id.emplace(text_at(node, "id"), &node);
  Graph graph;
  std::map<std::string, size_t> places;
  for (const std::string& id : order_of_nodes(json, chain)) {
    const auto found = by_id.find(id);
    if (found == by_id.end() || places.contains(id)) continue;
    if (graph.nodes.size() == kMostNodes) {
      places.emplace(id, SIZE_MAX);
      ++graph.left_out;
      continue;
    }
    places.emplace(id, graph.nodes.size());
    const Json& node = *found->second;
    graph.nodes.push_back({.label = text_at(node, "label"),
                           .activity = text_at(node, "activity"),
                           .code = place_text(object_at(node, "in_code")),
                           .is_thread = text_at(node, "kind") == "thread",
                           .in_chain = std::ranges::count(chain, id) > 0});
  }
  for (const Json& edge : items_at(json, "edges")) {
    const auto from = places.find(text_at(edge, "from"));
    const auto to = places.find(text_at(edge, "to"));
    if (from == places.end() || to == places.end()) continue;
    if (from->second == SIZE_MAX || to->second == SIZE_MAX) continue;
    const auto step = std::ranges::find(chain, from->first);
    const bool in_chain =
        step != chain.end() && std::next(step) != chain.end() && *std::next(step) == to->first;
    graph.edges.push_back({.from = from->second,
                           .to = to->second,
                           .relation = text_at(edge, "relation"),
                           .in_chain = in_chain});
  }
  return graph;
}

std::string state_word(const std::string& state) {
  if (state == "R") return "running";
  if (state == "S") return "sleeping";
  if (state == "D") return "in the kernel";
  if (state == "T" || state == "t") return "stopped";
  return state == "Z" ? "ended" : state;
}

std::string activity_text(const Json& process) {
  std::string activity = text_at(process, "activity");
  if (!activity.empty() && activity != "unknown") return activity;
  return or_dash(state_word(text_at(process, "state")));
}

// The main thread's, where nothing better is known of the process as a whole.
std::string waits_text(const Json& process) {
  std::string waits = text_at(process, "waits_for");
  const Json& threads = items_at(process, "threads");
  if (!waits.empty() || threads.empty()) return waits;
  return text_at(threads.front(), "waits_for");
}

// The innermost Python frame of the main thread, where the user's own code is not known.
std::string code_text(const Json& process) {
  const Json& in_code = object_at(process, "in_code");
  const Json& threads = items_at(process, "threads");
  if (!in_code.empty() || threads.empty()) return place_text(in_code);
  for (const Json& frame : items_at(threads.front(), "stack")) {
    if (text_at(frame, "kind") == "python") return place_text(frame);
  }
  return "";
}

// What a process does; on lines of their own what it waits for, and how long dlprobe stopped it.
Spans doing_spans(const Json& process, const Json& report) {
  const std::string code = code_text(process);
  Spans text =
      spans(activity_text(process) + since_text(process, report, number_at(process, "run")) +
            (code.empty() ? "" : ", at " + code));
  if (const std::string waits = waits_text(process); !waits.empty())
    text = spans(text, new_line(), "waits for " + waits);
  if (const std::string pause = pause_text(process); !pause.empty())
    text = spans(text, new_line(), "was stopped by dlprobe for " + pause);
  return text;
}

// What a process does: those that do the same are folded.
std::string key_of_process(const Json& process, const AlikeWaits& waits) {
  std::string key = fmt::format(
      "{}|{}|{}|{}|{}|{}", number_at(process, "run").value_or(0), text_at(process, "role"),
      text_at(process, "activity"), text_at(process, "state"),
      without_numbers(text_at(process, "waits_for")), place_text(object_at(process, "in_code")));
  const Json& threads = items_at(process, "threads");
  if (!threads.empty()) key += "|" + waits.key_among_processes(process, threads.front());
  return key;
}

std::vector<FoldedProcesses> fold_activities(const Json& report) {
  const Json& all = items_at(report, "processes");
  const AlikeWaits waits(all, Json(), object_at(report, "wait_graph"));
  std::vector<AlikeProcess> keys;
  for (const Json& process : all) {
    if (process.is_object() && process.contains("threads"))
      keys.push_back({.process = &process, .key = key_of_process(process, waits)});
  }
  std::vector<FoldedProcesses> groups = waits.fold(keys);
  std::ranges::stable_sort(groups, {}, [](const FoldedProcesses& group) {
    return std::pair(number_at(*group.first, "run").value_or(0),
                     role_rank(text_at(*group.first, "role")));
  });
  return groups;
}

void add_activities(Blocks& blocks, const Json& report) {
  for (const FoldedProcesses& group : fold_activities(report)) {
    const Json& process = *group.first;
    const std::string role = text_at(process, "role");
    const auto number = number_at(process, "pid");
    const std::string pid = number ? fmt::format("{:.0f}", *number) : "?";
    Table table = {.columns = {{.lead = 18}, {.is_number = true, .lead = 10}, {}},
                   .is_lines = true};
    table.add(or_dash(role), pid, doing_spans(process, report));
    blocks.add(std::move(table), Readers::kText);
    if (group.others.empty()) continue;
    blocks.add(Paragraph{.text = spans(fmt::format("{}{} {}: same as {} {}", role,
                                                   group.others.size() > 1 ? "s" : "",
                                                   ranges_text(group.others), role, pid))},
               Readers::kText);
  }
}

// The processes of each role, on a line.
Table role_lines(const Json& processes) {
  std::vector<std::pair<std::string, std::vector<const Json*>>> roles;
  for (const Json& process : processes) {
    const std::string name = text_at(process, "role");
    auto found = std::ranges::find(roles, name, [](const auto& role) { return role.first; });
    if (found == roles.end()) found = roles.insert(roles.end(), {name, {}});
    found->second.push_back(&process);
  }
  Table table = {.columns = {{.lead = 17}, {}}, .is_lines = true};
  for (const auto& [name, all] : roles) {
    std::string text = text_at(*all.front(), "comm");
    for (size_t i = 0; i < std::min(all.size(), kMostPidsInALine); ++i)
      text += " " + value_at(*all[i], "pid");
    if (all.size() > kMostPidsInALine)
      text += fmt::format(" and {} more", all.size() - kMostPidsInALine);
    const std::string basis = text_at(*all.front(), "role_basis");
    if (!basis.empty()) text += fmt::format(" (known because {})", basis);
    table.add(name, text);
  }
  return table;
}

// How those that ended did, and why dlprobe ended what it had started; the signals are its own.
std::vector<std::string> exits_of(const Json& report) {
  std::vector<std::string> exits;
  for (const Json& run : items_at(report, "runs")) {
    const Json& end = object_at(run, "end");
    const std::string why = text_at(end, "text");
    const bool is_ours = text_at(end, "reason") == "subject-ended" && !why.empty();
    if (is_ours && std::ranges::find(exits, why) == exits.end()) exits.push_back(why);
  }
  for (const Json& process : items_at(report, "processes")) {
    const std::string text = text_at(object_at(process, "exit"), "text");
    // An end with code 0 is no news.
    if (text.empty() || text == "exited with code 0") continue;
    exits.push_back(
        fmt::format("{} {} {}", text_at(process, "role"), value_at(process, "pid"), text));
  }
  return exits;
}

// The table of a page: each process under the one that started it, where that is in the report.
class ProcessTable {
 public:
  explicit ProcessTable(const Json& processes) : processes_(processes) {
    for (size_t i = 0; i < processes.size(); ++i)
      places_.emplace(key(processes[i], "pid"), i);
  }

  Table table(const Json& report) const {
    using PathAndProcess = std::pair<std::vector<size_t>, const Json*>;
    std::vector<PathAndProcess> order;
    order.reserve(processes_.size());
    for (size_t i = 0; i < processes_.size(); ++i)
      order.emplace_back(path_to(i), &processes_[i]);
    std::ranges::sort(order, {}, &PathAndProcess::first);
    if (order.size() > kMostInTable) order.resize(kMostInTable);
    Table table = table_of({"Role and pid", "Name", "What it does, or its end",
                            "RSS at its highest", "PSS", "Descriptors"},
                           3, 3);
    for (const auto& [path, each] : order) {
      const std::string ended = text_at(object_at(*each, "exit"), "text");
      const Span name = {.text = text_at(*each, "comm"),
                         .mark = Mark::kCode,
                         .hint = joined(items_at(*each, "cmdline"), " ")};
      Row& row = table.add(
          process_name(*each), name, ended.empty() ? doing_spans(*each, report) : spans(ended),
          bytes_at(*each, "rss_peak_bytes"), bytes_at(object_at(*each, "memory"), "pss_bytes"),
          count_at(*each, "fds_peak"));
      row.depth = static_cast<int>(path.size()) - 1;
    }
    return table;
  }

 private:
  using RunAndPid = std::pair<int64_t, int64_t>;

  static RunAndPid key(const Json& process, const char* pid) {
    return {integer_at(process, "run"), integer_at(process, pid)};
  }

  // From its first ancestor; a report may hold anything, circles as well.
  std::vector<size_t> path_to(size_t process) const {
    constexpr size_t kDeepest = 16;
    std::vector<size_t> path = {process};
    while (path.size() < kDeepest) {
      const auto parent = places_.find(key(processes_[path.back()], "ppid"));
      if (parent == places_.end()) break;
      path.push_back(parent->second);
    }
    std::ranges::reverse(path);
    return path;
  }

  const Json& processes_;
  std::map<RunAndPid, size_t> places_;
};

}  // namespace

bool has_activities(const Json& report) {
  return std::ranges::any_of(items_at(report, "processes"), [](const Json& process) {
    return process.is_object() && process.contains("threads");
  });
}

Section waits_of(const Json& report) {
  Section section = {.id = "waits", .title = "Who waits for whom"};
  Graph graph = graph_of(report);
  List chain = chain_of(report);
  if (chain.items.empty()) section.readers = Readers::kPages;
  if (graph.nodes.size() > 1 && !graph.edges.empty())
    section.blocks.add(std::move(graph), Readers::kPages);
  if (!chain.items.empty()) section.blocks.add(std::move(chain));
  return section;
}

Section processes_of(const Json& report) {
  Section section = {.id = "processes", .title = "Processes"};
  const Json& processes = items_at(report, "processes");
  if (processes.empty()) return section;
  if (has_activities(report)) {
    add_activities(section.blocks, report);
  } else {
    section.blocks.add(role_lines(processes), Readers::kText);
  }
  section.blocks.add(ProcessTable(processes).table(report), Readers::kPages);
  if (processes.size() > kMostInTable) {
    section.blocks.add(Paragraph{.text = spans("the JSON report has more processes")},
                       Readers::kPages);
  }
  const std::vector<std::string> exits = exits_of(report);
  for (size_t i = 0; i < std::min(exits.size(), kMostExits); ++i)
    section.blocks.add(Paragraph{.text = spans(exits[i]), .lead = "!"});
  if (exits.size() > kMostExits) {
    section.blocks.add(Paragraph{
        .text = spans(fmt::format("and {} more", exits.size() - kMostExits)), .lead = "!"});
  }
  return section;
}

}  // namespace dlprobe::document
