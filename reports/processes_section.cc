#include <sys/wait.h>

#include <algorithm>
#include <map>

#include "reports/sections.h"
#include "reports/stack_json.h"

namespace dlprobe {
namespace {

constexpr size_t kMostProcesses = 500;

struct Peaks {
  std::optional<uint64_t> rss_bytes;
  std::optional<uint64_t> fds;
};

std::map<ProcessKey, Peaks> peaks_of(const Run& run) {
  std::map<ProcessKey, Peaks> result;
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& process : sample.processes) {
      Peaks& peaks = result[process.key];
      if (process.rss_bytes) {
        peaks.rss_bytes = std::max(peaks.rss_bytes.value_or(0), *process.rss_bytes);
      }
      if (process.fd_count && *process.fd_count) {
        peaks.fds = std::max(peaks.fds.value_or(0), **process.fd_count);
      }
    }
  }
  return result;
}

Json exit_json(const ProcessExit& exit, const TimeOfDay& time) {
  Json entry = {{"text", json_text(describe_exit(exit.wait_status))}};
  if (exit.wait_status && WIFSIGNALED(*exit.wait_status)) {
    entry["signal"] = WTERMSIG(*exit.wait_status);
  } else if (exit.wait_status && WIFEXITED(*exit.wait_status)) {
    entry["exit_code"] = WEXITSTATUS(*exit.wait_status);
  }
  entry["source"] = json_text(exit.source);
  time.put(entry, "seen", exit.at);
  return entry;
}

Json process_json(const ProcessInfo& process, const Peaks& peaks, const TimeOfDay& time) {
  Json entry = {{"pid", process.key.pid},
                {"start_ticks", process.key.start_ticks},
                {"ppid", process.ppid},
                {"role", to_string(process.role)},
                {"role_basis", json_text(process.role_basis)}};
  if (process.start_method) entry["start_method"] = to_string(*process.start_method);
  entry["comm"] = json_text(process.comm);
  entry["cmdline"] = json_texts(process.cmdline);
  if (process.exe) {
    entry["exe"] = json_text(*process.exe);
  } else {
    entry["exe_unreadable"] = json_text(to_string(process.exe.error()));
  }
  entry["uid"] = process.uid;
  if (process.namespace_pids.size() > 1) entry["namespace_pids"] = process.namespace_pids;
  if (process.cgroup) entry["cgroup"] = json_text(*process.cgroup);
  const Limit open_files = process.open_files_limit.value_or(Limit{});
  if (open_files.soft) entry["open_files_limit"] = *open_files.soft;
  if (peaks.rss_bytes) entry["rss_peak_bytes"] = *peaks.rss_bytes;
  if (peaks.fds) entry["fds_peak"] = *peaks.fds;
  time.put(entry, "first_seen", process.seen_at);
  return entry;
}

const ProcessSnapshot* snapshot_of(const Run& run, const ProcessKey& key) {
  if (run.snapshots.empty()) return nullptr;
  const std::vector<ProcessSnapshot>& processes = run.snapshots.back().processes;
  const auto found = std::ranges::find(processes, key, &ProcessSnapshot::key);
  return found == processes.end() ? nullptr : &*found;
}

// The longest of all looks: what dlprobe did to the process at most.
int64_t longest_pause_ns(const Run& run, const ProcessKey& key) {
  int64_t longest = 0;
  for (const TreeSnapshot& tree : run.snapshots) {
    for (const ProcessSnapshot& process : tree.processes) {
      if (process.key == key) longest = std::max(longest, process.pause_ns);
    }
  }
  return longest;
}

// Of its main thread where the graph has it: what the process as a whole is at.
const WaitNode* node_of(const Verdict& verdict, size_t run, const ProcessKey& key) {
  const WaitNode* first = nullptr;
  for (const WaitGraph& graph : verdict.wait_graphs) {
    if (static_cast<size_t>(graph.run) != run) continue;
    for (const WaitNode& node : graph.nodes) {
      if (!node.is_thread || node.process != key) continue;
      if (node.tid == key.pid) return &node;
      if (first == nullptr) first = &node;
    }
  }
  return first;
}

void put_last_look(Json& entry, const ReportSource& source, size_t index, const ProcessKey& key) {
  const Run& run = source.recording.runs[index];
  if (const WaitNode* node = node_of(source.verdict, index, key)) {
    put_activity(entry, *node, source.time);
  }
  const ProcessSnapshot* snapshot = snapshot_of(run, key);
  if (snapshot == nullptr) return;
  ProcessSnapshot last = *snapshot;
  last.pause_ns = longest_pause_ns(run, key);
  if (!last.threads.empty()) {
    entry["state"] = json_text(std::string(1, last.threads.front().state));
  }
  entry.update(process_snapshot_json(last, source.recording.header.host.machine));
}

}  // namespace

Json processes_section(const ReportSource& source) {
  Json result = Json::array();
  for (size_t i = 0; i < source.recording.runs.size(); ++i) {
    const Run& run = source.recording.runs[i];
    const auto peaks = peaks_of(run);
    for (const ProcessInfo& process : run.processes) {
      if (result.size() == kMostProcesses) return result;
      const auto peak = peaks.find(process.key);
      Json entry = {{"run", i}};
      entry.update(
          process_json(process, peak == peaks.end() ? Peaks{} : peak->second, source.time));
      put_last_look(entry, source, i, process.key);
      if (const ProcessExit* exit = run.find_exit(process.key)) {
        entry["exit"] = exit_json(*exit, source.time);
      }
      result.push_back(std::move(entry));
    }
  }
  return result;
}

}  // namespace dlprobe
