#include "reports/text_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "reports/alike_waits.h"
#include "reports/frame_text.h"

namespace dlprobe {
namespace {

std::string or_dash(std::string text) {
  return text.empty() ? "-" : std::move(text);
}

std::string pid_text(const Json& process) {
  const auto pid = number_at(process, "pid");
  return pid ? fmt::format("{:.0f}", *pid) : "?";
}

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
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(*end - *since)));
}

const Json* node_of(const Json& graph, const std::string& id) {
  for (const Json& node : items_at(graph, "nodes")) {
    if (text_at(node, "id") == id) return &node;
  }
  return nullptr;
}

std::string relation_between(const Json& graph, const std::string& from, const std::string& to) {
  for (const Json& edge : items_at(graph, "edges")) {
    if (text_at(edge, "from") == from && text_at(edge, "to") == to) {
      return text_at(edge, "relation");
    }
  }
  return "then";
}

// "worker 4711, stuck for 2.0 s, at train.py:12 in __getitem__".
std::string node_text(const Json& node, const Json& report, const std::optional<double>& run) {
  std::string text = or_dash(text_at(node, "label"));
  const std::string activity = text_at(node, "activity");
  if (!activity.empty() && activity != "unknown") {
    text += ", " + activity;
    const std::string since = since_text(node, report, run);
    if (!since.empty()) text += " for " + since;
  }
  const std::string code = place_text(object_at(node, "in_code"));
  const std::string place = code.empty() ? frame_text(object_at(node, "at")) : code;
  if (!place.empty()) text += ", at " + place;
  return text;
}

// What a process does: those that do the same are folded.
std::string fold_key(const Json& process, const AlikeWaits& waits) {
  std::string key = fmt::format(
      "{}|{}|{}|{}|{}|{}", number_at(process, "run").value_or(0), text_at(process, "role"),
      text_at(process, "activity"), text_at(process, "state"),
      without_numbers(text_at(process, "waits_for")), place_text(object_at(process, "in_code")));
  const Json& threads = items_at(process, "threads");
  if (!threads.empty()) key += "|" + waits.key_among_processes(process, threads.front());
  return key;
}

struct Group {
  const Json* first = nullptr;
  std::vector<int64_t> others;  ///< pids
};

std::vector<Group> groups_of(const Json& report) {
  const Json& all = items_at(report, "processes");
  const AlikeWaits waits(all, Json(), object_at(report, "wait_graph"));
  std::vector<const Json*> processes;
  std::vector<AlikeProcess> keys;
  for (const Json& process : all) {
    if (!process.is_object() || !process.contains("threads")) continue;
    processes.push_back(&process);
    keys.push_back({.pid = integer_at(process, "pid"), .key = fold_key(process, waits)});
  }
  std::vector<Group> groups;
  for (const FoldedProcesses& folded : waits.fold(keys))
    groups.push_back({.first = processes[folded.first], .others = folded.others});
  std::ranges::stable_sort(groups, {}, [](const Group& group) {
    return std::pair(number_at(*group.first, "run").value_or(0),
                     role_rank(text_at(*group.first, "role")));
  });
  return groups;
}

std::string state_word(const std::string& state) {
  if (state == "R") return "running";
  if (state == "S") return "sleeping";
  if (state == "D") return "in the kernel";
  if (state == "T" || state == "t") return "stopped";
  return state == "Z" ? "ended" : state;
}

std::string doing_text(const Json& process) {
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

void write_group(TextPage& page, const Group& group, const Json& report) {
  const Json& process = *group.first;
  const std::string role = text_at(process, "role");
  const std::string lead = fmt::format("  {:<17} {:>8}  ", or_dash(role), pid_text(process));
  std::string text = doing_text(process);
  const std::string since = since_text(process, report, number_at(process, "run"));
  if (!since.empty()) text += " for " + since;
  const std::string code = code_text(process);
  if (!code.empty()) text += ", at " + code;
  page.paragraph(lead, text);
  const std::string waits = waits_text(process);
  const std::string indent(columns_of(lead), ' ');
  if (!waits.empty()) page.paragraph(indent, "waits for " + waits);
  const std::string pause = pause_text(process);
  if (!pause.empty()) page.paragraph(indent, "was stopped by dlprobe for " + pause);
  if (group.others.empty()) return;
  page.paragraph("  ",
                 fmt::format("{}{} {}: same as {} {}", role, group.others.size() > 1 ? "s" : "",
                             ranges_text(group.others), role, pid_text(process)));
}

}  // namespace

bool has_activities(const Json& report) {
  return std::ranges::any_of(items_at(report, "processes"), [](const Json& process) {
    return process.is_object() && process.contains("threads");
  });
}

void write_chain(TextPage& page, const Json& report) {
  const Json& graph = object_at(report, "wait_graph");
  std::vector<std::string> ids;
  for (const Json& id : items_at(graph, "chain"))
    ids.push_back(value_with_unit(id, ""));
  if (ids.empty()) return;
  page.heading("Who waits for whom");
  std::set<std::string> seen;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Json* node = node_of(graph, ids[i]);
    const std::string lead(2 + 2 * std::min<size_t>(i, 10), ' ');
    const std::string relation = i == 0 ? "" : relation_between(graph, ids[i - 1], ids[i]) + " ";
    const bool is_again = !seen.insert(ids[i]).second;
    std::string text = node == nullptr ? ids[i] : text_at(*node, "label");
    if (is_again) {
      text += "  <-- again: a circle";
    } else {
      if (node != nullptr) text = node_text(*node, report, number_at(graph, "run"));
      if (i + 1 == ids.size()) text += "  <-- the root cause";
    }
    page.paragraph(lead, relation + text);
  }
}

void write_activities(TextPage& page, const Json& report) {
  const std::vector<Group> groups = groups_of(report);
  if (groups.empty()) return;
  page.heading("Processes");
  for (const Group& group : groups)
    write_group(page, group, report);
}

}  // namespace dlprobe
