#include "reports/model/node_limits.h"

#include <fmt/format.h>

#include <optional>
#include <string>

namespace dlprobe {
namespace {

class NodeLimits {
 public:
  void add(std::string_view name, std::string value) {
    limits_.push_back({.name = std::string(name), .value = std::move(value)});
  }
  void add_number(std::string_view name, const std::optional<uint64_t>& number) {
    add(name, number ? std::to_string(*number) : std::string(kUnlimited));
  }
  void add_soft(std::string_view name, const Observed<Limit>& limit) {
    if (limit) add_number(name, limit->soft);
  }
  void add_seen(std::string_view name, const Observed<uint64_t>& number) {
    if (number) add_number(name, *number);
  }

  std::vector<report::NodeLimit> take() && { return std::move(limits_); }

 private:
  std::vector<report::NodeLimit> limits_;
};

void add_of_gate(const GateFacts& facts, NodeLimits& limits) {
  limits.add_soft(kProcessesLimit, facts.processes);
  if (facts.cgroup_tasks) limits.add_number(kGroupTasksLimit, facts.cgroup_tasks_limit);
  limits.add_seen(kTasksLimit, facts.most_tasks);
  limits.add_seen("open files of the machine", facts.most_files);
  limits.add(kCpuQuota,
             facts.cpu_quota ? fmt::format("{:.3g}", *facts.cpu_quota) : std::string(kUnlimited));
  if (facts.ptrace_scope)
    limits.add("kernel.yama.ptrace_scope", std::to_string(*facts.ptrace_scope));
}

}  // namespace

std::vector<report::NodeLimit> node_limits(const Recording& recording) {
  NodeLimits limits;
  const HostFacts& host = recording.header.host;
  if (host.max_map_count) limits.add_number(kMappingsLimit, host.max_map_count);
  if (host.overcommit_memory)
    limits.add(kOvercommitPolicy, std::to_string(*host.overcommit_memory));
  if (recording.runs.empty()) return std::move(limits).take();
  const Run& run = recording.runs.front();
  if (run.begin.open_files_limit && !run.begin.own_open_files)
    limits.add_number(kOpenFilesLimit, run.begin.open_files_limit->soft);
  if (run.gate) add_of_gate(*run.gate, limits);
  return std::move(limits).take();
}

}  // namespace dlprobe
