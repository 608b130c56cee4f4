#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reports/model/sections.h"
#include "reports/model/stack_section.h"

namespace dlprobe {
namespace {

constexpr size_t kMostProcesses = 500;

// Peaks over the run, and the newest of what is read less often, while the process lived.
struct Resources {
  std::optional<uint64_t> rss_peak_bytes;
  std::optional<uint64_t> fds_peak;
  report::ProcessMemory memory;
  std::optional<FdKinds> fds;
};

void take_newest(std::optional<uint64_t>& newest, const std::optional<uint64_t>& value) {
  if (value) newest = value;
}

void take(Resources& resources, const ProcessSample& process) {
  // On its way out a process has no memory any more.
  report::ProcessMemory& memory = resources.memory;
  if (process.rss_bytes.value_or(0) > 0) memory.rss_bytes = *process.rss_bytes;
  raise(resources.rss_peak_bytes, value_of(process.rss_bytes));
  raise(resources.fds_peak, value_of(process.fd_count));
  take_newest(memory.private_bytes, process.private_bytes);
  take_newest(memory.pss_bytes, value_of(process.pss_bytes));
  take_newest(memory.swap_bytes, value_of(process.swap_bytes));
  take_newest(memory.page_table_bytes, process.page_table_bytes);
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

report::NamedCounts counts_of(const FdKinds& fds) {
  report::NamedCounts kinds;
  for (const FdKind kind : kValues<FdKind>) {
    if (fds[kind] > 0) kinds.counts.emplace_back(to_string(kind), fds[kind]);
  }
  return kinds;
}

void put_peaks(report::Process& entry, const Resources& resources) {
  entry.rss_peak_bytes = resources.rss_peak_bytes;
  entry.fds_peak = resources.fds_peak;
  const report::ProcessMemory& memory = resources.memory;
  const bool is_known = memory.rss_bytes || memory.private_bytes || memory.pss_bytes ||
                        memory.swap_bytes || memory.page_table_bytes;
  if (is_known) entry.memory = memory;
  entry.fd_kinds = resources.fds.transform(counts_of);
}

report::ProcessExit exit_of(const ProcessExit& exit, const ReportSource& source) {
  report::ProcessExit entry;
  entry.text = source.sentences.text_of(describe_exit(exit.wait_status));
  if (exit.wait_status && WIFSIGNALED(*exit.wait_status)) {
    entry.signal = WTERMSIG(*exit.wait_status);
  } else if (exit.wait_status && WIFEXITED(*exit.wait_status)) {
    entry.exit_code = WEXITSTATUS(*exit.wait_status);
  }
  entry.source = exit.source;
  entry.seen = source.time.moment(exit.at);
  return entry;
}

report::Process process_of(const ProcessInfo& process, const Resources& resources,
                           const TimeOfDay& time) {
  report::Process entry;
  entry.pid = process.key.pid;
  entry.start_ticks = process.key.start_ticks;
  entry.ppid = process.ppid;
  entry.role = process.role;
  entry.role_basis = process.role_basis;
  entry.start_method = process.start_method;
  if (const JobRank* rank = process.rank_of_several()) {
    entry.rank = rank->rank;
    entry.world_size = rank->world_size;
    if (!rank->job.empty()) entry.job = rank->job;
  }
  entry.comm = process.comm;
  entry.cmdline = process.cmdline;
  if (process.exe) {
    entry.exe = *process.exe;
  } else {
    entry.exe_unreadable = to_string(process.exe.error());
  }
  if (process.uid) {
    entry.uid = *process.uid;
  } else {
    entry.uid_unreadable = to_string(process.uid.error());
  }
  if (process.namespace_pids.size() > 1) entry.namespace_pids = process.namespace_pids;
  if (process.cgroup) entry.cgroup = *process.cgroup;
  entry.open_files_limit = process.open_files_limit.value_or(Limit{}).soft;
  put_peaks(entry, resources);
  entry.first_seen = time.moment(process.seen_at);
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

void put_last_look(report::Process& entry, const ReportSource& source, size_t index,
                   const ProcessKey& key) {
  const Run& run = source.recording.runs[index];
  if (const WaitNode* node = node_of(source.verdict, index, key))
    entry.doing = doing_of(*node, source);
  const ProcessSnapshot* snapshot = snapshot_of(run, key);
  if (snapshot == nullptr) return;
  ProcessSnapshot last = *snapshot;
  last.pause_ns = longest_pause_ns(run, key);
  if (!last.threads.empty()) entry.state = std::string(1, last.threads.front().state);
  entry.look = last_look_of(last, source.recording.header.host.machine);
}

}  // namespace

std::vector<report::Process> processes_section(const ReportSource& source) {
  std::vector<report::Process> result;
  for (size_t i = 0; i < source.recording.runs.size(); ++i) {
    const Run& run = source.recording.runs[i];
    auto resources = resources_of(run);
    for (const ProcessInfo& process : run.processes) {
      if (result.size() == kMostProcesses) return result;
      report::Process& entry =
          result.emplace_back(process_of(process, resources[process.key], source.time));
      entry.run = i;
      put_last_look(entry, source, i, process.key);
      if (const ProcessExit* exit = run.find_exit(process.key)) entry.exit = exit_of(*exit, source);
    }
  }
  return result;
}

}  // namespace dlprobe
