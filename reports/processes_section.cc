#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reports/sections.h"
#include "reports/stack_json.h"

namespace dlprobe {
namespace {

constexpr size_t kMostProcesses = 500;

// Peaks over the run, and the newest of what is read less often, while the process lived.
struct Resources {
  std::optional<uint64_t> rss_peak_bytes;
  std::optional<uint64_t> fds_peak;
  std::optional<uint64_t> rss_bytes;
  std::optional<uint64_t> private_bytes;
  std::optional<uint64_t> pss_bytes;
  std::optional<uint64_t> swap_bytes;
  std::optional<uint64_t> page_table_bytes;
  std::optional<FdKinds> fds;
};

void take_newest(std::optional<uint64_t>& newest, const std::optional<uint64_t>& value) {
  if (value) newest = value;
}

void take(Resources& resources, const ProcessSample& process) {
  // On its way out a process has no memory any more.
  if (process.rss_bytes.value_or(0) > 0) resources.rss_bytes = *process.rss_bytes;
  raise(resources.rss_peak_bytes, value_of(process.rss_bytes));
  raise(resources.fds_peak, value_of(process.fd_count));
  take_newest(resources.private_bytes, process.private_bytes);
  take_newest(resources.pss_bytes, value_of(process.pss_bytes));
  take_newest(resources.swap_bytes, value_of(process.swap_bytes));
  take_newest(resources.page_table_bytes, process.page_table_bytes);
  if (process.fds && *process.fds && (*process.fds)->total() > 0) resources.fds = **process.fds;
}

std::map<ProcessKey, Resources> resources_of(const Run& run) {
  std::map<ProcessKey, Resources> result;
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& process : sample.processes) {
      if (process.state != 'Z') take(result[process.key], process);
    }
  }
  return result;
}

void put(Json& object, const char* key, const std::optional<uint64_t>& value) {
  if (value) object[key] = *value;
}

void put_resources(Json& entry, const Resources& resources) {
  put(entry, "rss_peak_bytes", resources.rss_peak_bytes);
  put(entry, "fds_peak", resources.fds_peak);
  Json memory = Json::object();
  put(memory, "rss_bytes", resources.rss_bytes);
  put(memory, "private_bytes", resources.private_bytes);
  put(memory, "pss_bytes", resources.pss_bytes);
  put(memory, "swap_bytes", resources.swap_bytes);
  put(memory, "page_table_bytes", resources.page_table_bytes);
  if (!memory.empty()) entry["memory"] = std::move(memory);
  if (!resources.fds) return;
  Json kinds = Json::object();
  for (const FdKind kind : kFdKinds) {
    const uint64_t count = (*resources.fds)[kind];
    if (count > 0) kinds[std::string(to_string(kind))] = count;
  }
  entry["fd_kinds"] = std::move(kinds);
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

Json process_json(const ProcessInfo& process, const Resources& resources, const TimeOfDay& time) {
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
  put_resources(entry, resources);
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
    if (std::cmp_not_equal(graph.run, run)) continue;
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
    auto resources = resources_of(run);
    for (const ProcessInfo& process : run.processes) {
      if (result.size() == kMostProcesses) return result;
      Json entry = {{"run", i}};
      entry.update(process_json(process, resources[process.key], source.time));
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
