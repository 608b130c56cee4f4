#include "probes/facts/task_limits.h"

namespace dlprobe {

std::vector<TaskLimit> task_limits(const TaskFacts& facts) {
  std::vector<TaskLimit> limits;
  const std::optional<uint64_t> of_user = facts.processes ? facts.processes->soft : std::nullopt;
  if (of_user && facts.tasks_of_user) {
    limits.push_back({.scope = TaskScope::kUser,
                      .name = "the user's limit of processes (ulimit -u)",
                      .limit = *of_user,
                      .taken = *facts.tasks_of_user,
                      .source = "Max processes of /proc/PID/limits"});
  }
  for (const TaskGroup& group : facts.groups) {
    if (!group.limit) continue;
    limits.push_back({.scope = TaskScope::kGroup,
                      .name = "the limit of the cgroup (pids.max)",
                      .limit = *group.limit,
                      .taken = group.taken,
                      .source = "pids.max and pids.current",
                      .folder = group.folder});
  }
  if (facts.most_tasks && facts.tasks) {
    limits.push_back({.scope = TaskScope::kMachine,
                      .name = "the machine's limit (kernel.threads-max, kernel.pid_max)",
                      .limit = *facts.most_tasks,
                      .taken = *facts.tasks,
                      .source = "/proc/sys/kernel, /proc/loadavg"});
  }
  std::ranges::stable_sort(limits, {}, &TaskLimit::left);
  return limits;
}

}  // namespace dlprobe
