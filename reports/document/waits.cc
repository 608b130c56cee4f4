// Who waits for whom, what each process does, and the processes as a table.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

constexpr size_t kMostPidsInALine = 16;
constexpr size_t kMostExits = 12;
constexpr size_t kMostInTable = 500;

using report::WaitGraph;
using report::WaitNode;

// When that run ended; where it does not say so, the whole examination.
double end_of_run(const report::Report& report, const std::optional<uint64_t>& index) {
  for (const report::Run& run : report.runs) {
    if (run.index == index && std::isfinite(run.duration_s))
      return static_cast<double>(run.started.boottime_ns) +
             run.duration_s * static_cast<double>(kSecond);
  }
  return static_cast<double>(report.invocation.ended.boottime_ns);
}

std::string relation_between(const WaitGraph& graph, const std::string& from,
                             const std::string& to) {
  for (const report::WaitEdge& edge : graph.edges) {
    if (edge.from == from && edge.to == to) return shown(edge.relation);
  }
  return "then";
}

// ", stuck for 2.0 s, at train.py:12 in __getitem__".
std::string doing_text(const WaitNode& node, const report::Report& report) {
  const report::Doing doing = node.doing.value_or(report::Doing());
  std::string text;
  if (doing.activity != Activity::kUnknown)
    text = ", " + shown(doing.activity) + since_text(doing, report, report.wait_graph.run);
  std::string place = place_text(doing.in_code);
  if (place.empty() && node.at) place = frame_text(*node.at);
  return place.empty() ? text : text + ", at " + place;
}

// What a step of the chain is, after what leads to it.
struct Step {
  std::string relation;  ///< to the step before; with a blank behind it, or empty
  Span label;
  const WaitNode* node = nullptr;  ///< nothing: the graph does not have it
  std::string_view remark;
  bool is_again = false;
};

std::vector<Step> steps_of(const WaitGraph& graph) {
  const std::vector<std::string>& ids = graph.chain;
  std::vector<Step> steps;
  std::set<std::string> seen;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto node = std::ranges::find(graph.nodes, ids[i], &WaitNode::id);
    const bool is_known = node != graph.nodes.end();
    const bool is_again = !seen.insert(ids[i]).second;
    std::string_view remark = i + 1 == ids.size() ? "  <-- the root cause" : "";
    if (is_again) remark = "  <-- again: a circle";
    steps.push_back({.relation = i == 0 ? "" : relation_between(graph, ids[i - 1], ids[i]) + " ",
                     .label = strong(or_dash(shown(is_known ? node->label : ids[i]))),
                     .node = is_known ? &*node : nullptr,
                     .remark = remark,
                     .is_again = is_again});
  }
  return steps;
}

List chain_of(const report::Report& report) {
  List list = {.kind = ListKind::kSteps};
  for (const Step& step : steps_of(report.wait_graph)) {
    const std::string doing =
        step.node == nullptr || step.is_again ? "" : doing_text(*step.node, report);
    list.add(step.relation, step.label, doing, step.remark);
  }
  return list;
}

std::string state_word(const std::string& state) {
  if (state == "R") return "running";
  if (state == "S") return "sleeping";
  if (state == "D") return "in the kernel";
  if (state == "T" || state == "t") return "stopped";
  return state == "Z" ? "ended" : state;
}

std::string activity_text(const report::Process& process) {
  if (process.doing && process.doing->activity != Activity::kUnknown)
    return shown(process.doing->activity);
  return or_dash(state_word(shown(process.state)));
}

const report::Thread* main_thread_of(const report::Process& process) {
  const bool has_any = process.look && !process.look->threads.empty();
  return has_any ? &process.look->threads.front() : nullptr;
}

// The main thread's, where nothing better is known of the process as a whole.
std::string waits_text(const report::Process& process) {
  const std::string waits = process.doing ? shown(process.doing->waits_for) : "";
  const report::Thread* thread = main_thread_of(process);
  return waits.empty() && thread != nullptr ? shown(thread->waits_for) : waits;
}

// The innermost Python frame of the main thread, where the user's own code is not known.
std::string code_text(const report::Process& process) {
  if (process.doing && process.doing->in_code) return place_text(process.doing->in_code);
  const report::Thread* thread = main_thread_of(process);
  if (thread == nullptr) return "";
  const auto frame =
      std::ranges::find(thread->stack, report::FrameKind::kPython, &report::Frame::kind);
  return frame == thread->stack.end() ? "" : place_text(*frame);
}

// What a process does; on lines of their own what it waits for, and how long dlprobe stopped it.
Spans doing_spans(const report::Process& process, const report::Report& report) {
  const std::string code = code_text(process);
  const std::string since = process.doing ? since_text(*process.doing, report, process.run) : "";
  Spans text = spans(activity_text(process) + since + (code.empty() ? "" : ", at " + code));
  if (const std::string waits = waits_text(process); !waits.empty())
    text = spans(text, new_line(), "waits for " + waits);
  if (const std::string pause = process.look ? pause_text(*process.look) : ""; !pause.empty())
    text = spans(text, new_line(), "was stopped by dlprobe for " + pause);
  return text;
}

// What a process does: those that do the same are folded.
std::string key_of_process(const LookedAt& looked, const AlikeWaits& waits) {
  const report::Process& process = *looked.process;
  const report::Doing doing = process.doing.value_or(report::Doing());
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}", process.run, shown(process.role), shown(doing.activity),
                  shown(process.state), without_numbers(doing.waits_for.value_or("")),
                  place_text(doing.in_code));
  if (const report::Thread* thread = main_thread_of(process))
    key += "|" + waits.key_among_processes(looked, *thread);
  return key;
}

void add_activities(Blocks& blocks, const report::Report& report) {
  const std::vector<LookedAt> all = looked_at(report);
  const AlikeWaits waits(all, {}, report.wait_graph);
  std::vector<AlikeProcess> keys;
  keys.reserve(all.size());
  for (const LookedAt& process : all)
    keys.push_back({.process = &process, .key = key_of_process(process, waits)});
  std::vector<FoldedProcesses> groups = waits.fold(keys);
  std::ranges::stable_sort(groups, {}, [](const FoldedProcesses& group) {
    return std::pair(group.first->run, role_rank(group.first->role));
  });
  for (const FoldedProcesses& group : groups) {
    const report::Process& process = *group.first->process;
    // The pid stands in a column of its own.
    std::string name = process_name(process.role, process.rank, process.pid);
    name = name.substr(0, name.rfind(' '));
    Table table = {.columns = {{.lead = 18}, {.is_number = true, .lead = 10}, {}},
                   .is_lines = true};
    table.add(name, std::to_string(process.pid), doing_spans(process, report));
    blocks.add(std::move(table), Readers::kText);
    if (group.others.empty()) continue;
    blocks.add(Paragraph{.text = spans(same_as_text(group))}, Readers::kText);
  }
}

// The processes of each role, on a line.
Table role_lines(const std::vector<report::Process>& processes) {
  std::vector<std::pair<Role, std::vector<const report::Process*>>> roles;
  for (const report::Process& process : processes) {
    auto found =
        std::ranges::find(roles, process.role, [](const auto& role) { return role.first; });
    if (found == roles.end()) found = roles.insert(roles.end(), {process.role, {}});
    found->second.push_back(&process);
  }
  Table table = {.columns = {{.lead = 17}, {}}, .is_lines = true};
  for (const auto& [role, all] : roles) {
    std::string text = shown(all.front()->comm);
    for (size_t i = 0; i < std::min(all.size(), kMostPidsInALine); ++i)
      text += fmt::format(" {}", all[i]->pid);
    if (all.size() > kMostPidsInALine)
      text += fmt::format(" and {} more", all.size() - kMostPidsInALine);
    const std::string basis = shown(all.front()->role_basis);
    if (!basis.empty()) text += fmt::format(" (known because {})", basis);
    table.add(shown(role), text);
  }
  return table;
}

// How those that ended did, and why dlprobe ended what it had started; the signals are its own.
std::vector<std::string> exits_of(const report::Report& report) {
  std::vector<std::string> exits;
  for (const report::Run& run : report.runs) {
    if (!run.end || run.end->reason != RunEndReason::kSubjectEnded) continue;
    const std::string why = shown(run.end->text);
    if (!why.empty() && std::ranges::find(exits, why) == exits.end()) exits.push_back(why);
  }
  for (const report::Process& process : report.processes) {
    const std::string text = process.exit ? shown(process.exit->text) : "";
    // An end with code 0 is no news.
    if (text.empty() || text == "exited with code 0") continue;
    exits.push_back(process_name(process) + " " + text);
  }
  return exits;
}

// The table of a page: each process under the one that started it, where that is in the report.
class ProcessTable {
 public:
  explicit ProcessTable(const std::vector<report::Process>& processes) : processes_(processes) {
    for (size_t i = 0; i < processes.size(); ++i)
      places_.emplace(RunAndPid(processes[i].run, processes[i].pid), i);
  }

  Table table(const report::Report& report) const {
    using PathAndProcess = std::pair<std::vector<size_t>, const report::Process*>;
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
      const std::string ended = each->exit ? shown(each->exit->text) : "";
      const Span name = {
          .text = shown(each->comm), .mark = Mark::kCode, .hint = joined(each->cmdline, " ")};
      Row& row = table.add(
          process_name(*each), name, ended.empty() ? doing_spans(*each, report) : spans(ended),
          bytes_text(each->rss_peak_bytes),
          each->memory ? bytes_text(each->memory->pss_bytes) : "-", count_text(each->fds_peak));
      row.depth = static_cast<int>(path.size()) - 1;
    }
    return table;
  }

 private:
  using RunAndPid = std::pair<uint64_t, int64_t>;

  // From its first ancestor; a report may hold anything, circles as well.
  std::vector<size_t> path_to(size_t process) const {
    constexpr size_t kDeepest = 16;
    std::vector<size_t> path = {process};
    while (path.size() < kDeepest) {
      const report::Process& child = processes_[path.back()];
      const auto parent = places_.find(RunAndPid(child.run, child.ppid));
      if (parent == places_.end()) break;
      path.push_back(parent->second);
    }
    std::ranges::reverse(path);
    return path;
  }

  const std::vector<report::Process>& processes_;
  std::map<RunAndPid, size_t> places_;
};

}  // namespace

std::string since_text(const report::Doing& doing, const report::Report& report,
                       const std::optional<uint64_t>& run) {
  if (!doing.since) return "";
  const double span = end_of_run(report, run) - static_cast<double>(doing.since->boottime_ns);
  if (!(span >= 0) || span > 9e18) return "";
  return " for " + format_duration(std::chrono::nanoseconds(static_cast<int64_t>(span)));
}

bool has_activities(const report::Report& report) {
  return std::ranges::any_of(report.processes,
                             [](const auto& process) { return process.look.has_value(); });
}

std::vector<Spans> short_chain(const report::WaitGraph& graph) {
  std::vector<Spans> lines;
  bool is_after_thread = true;
  for (const Step& step : steps_of(graph)) {
    const bool is_thread = step.node != nullptr && step.node->kind == report::NodeKind::kThread;
    std::optional<report::Frame> frame;
    if (is_thread && !step.is_again) frame = step.node->doing.value_or(report::Doing()).in_code;
    if (frame) frame->file = std::string(base_name(frame->file));
    const std::string place = place_text(frame);
    const Spans text =
        spans(step.relation, step.label, place.empty() ? "" : " (" + place + ")", step.remark);
    if (is_after_thread) {
      lines.push_back(text);
    } else {
      lines.back() = spans(lines.back(), ", ", text);
    }
    is_after_thread = is_thread;
  }
  return lines;
}

Section waits_of(const report::Report& report) {
  Section section = {.id = "waits", .title = "Who waits for whom"};
  Graph graph = graph_of(report);
  List chain = chain_of(report);
  if (chain.items.empty()) section.readers = Readers::kPages;
  if (graph.nodes.size() > 1 && !graph.edges.empty())
    section.blocks.add(std::move(graph), Readers::kPages);
  if (!chain.items.empty()) section.blocks.add(std::move(chain));
  return section;
}

Section processes_of(const report::Report& report) {
  Section section = {.id = "processes", .title = "Processes"};
  const std::vector<report::Process>& processes = report.processes;
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
