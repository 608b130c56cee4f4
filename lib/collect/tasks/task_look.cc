#include "lib/collect/tasks/task_look.h"

#include <linux/capability.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/parse.h"
#include "lib/proc/cgroup_memory.h"
#include "lib/proc/cgroup_mount.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_cgroup.h"
#include "lib/proc/pid_limits.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/processes.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kController = "pids";

// Threads of the user's processes: what RLIMIT_NPROC counts.
Expected<uint64_t> tasks_of_user(const Directory& root, uint32_t uid) {
  DLP_TRY(const std::vector<int32_t> pids, list_pids(root));
  uint64_t tasks = 0;
  for (const int32_t pid : pids) {
    const auto status = read_pid_status(root, pid);
    if (status && status->uid == uid) tasks += static_cast<uint64_t>(std::max(status->threads, 0));
  }
  return tasks;
}

// "0.5 0.4 0.3 2/345 6789" of /proc/loadavg: 345 tasks.
Expected<uint64_t> tasks_of_machine(const Directory& root) {
  DLP_TRY(const std::string text, root.read("proc/loadavg"));
  const auto fields = split_fields(trim(text));
  const size_t slash = fields.size() > 3 ? fields[3].find('/') : std::string_view::npos;
  const auto tasks = slash != std::string_view::npos
                         ? parse_int<uint64_t>(fields[3].substr(slash + 1))
                         : std::nullopt;
  if (!tasks) return failure(ErrorCode::kMalformed, "read /proc/loadavg");
  return *tasks;
}

std::optional<TaskGroup> read_group(const Directory& root, const std::string& folder) {
  const auto taken = chain(root.read(folder + "/pids.current"), parse_cgroup_number);
  if (!taken) return std::nullopt;  // the root of the hierarchy has none
  TaskGroup group{.folder = folder, .taken = *taken};
  group.limit = chain(root.read(folder + "/pids.max"), parse_cgroup_limit).value_or(std::nullopt);
  const auto refusals = chain(root.read(folder + "/pids.events"), [](const std::string& text) {
    return parse_flat_key(text, "max", "pids.events");
  });
  if (refusals) group.refusals = *refusals;
  return group;
}

// Those that count the tasks of the process, its own first. Empty where their files are not mounted
// where dlprobe runs.
std::vector<TaskGroup> read_task_groups(const Machine& machine, const Directory& process) {
  std::vector<TaskGroup> groups;
  const auto entries = chain(process.read("cgroup"), parse_pid_cgroup);
  const CgroupEntry* entry = entries ? controller_cgroup(*entries, kController) : nullptr;
  const auto mounts = chain(machine.root->read("proc/self/mountinfo"), parse_mountinfo);
  if (entry == nullptr || !mounts) return groups;
  for (const CgroupFolder& found : cgroup_folders(*entry, *mounts, kController)) {
    std::string folder = found.path;
    for (int level = found.levels; level >= 0; --level) {
      if (auto group = read_group(*machine.root, folder)) groups.push_back(std::move(*group));
      if (level > 0) folder.resize(folder.rfind('/'));
    }
    if (!groups.empty()) break;
  }
  return groups;
}

}  // namespace

TaskFacts read_task_facts(const Machine& machine, const Directory& process) {
  const Directory& root = *machine.root;
  TaskFacts facts;
  facts.at = machine.clock->now();
  facts.processes = chain(process.read("limits"), parse_processes_limit);
  const std::string text = process.read("status").value_or("");
  const auto status = parse_pid_status(text);
  facts.is_exempt = has_capability(text, CAP_SYS_RESOURCE) || has_capability(text, CAP_SYS_ADMIN) ||
                    (status && status->uid == 0);
  const bool is_limited = facts.processes && facts.processes->soft && !facts.is_exempt && status;
  facts.tasks_of_user = is_limited ? tasks_of_user(root, status->uid)
                                   : failure(ErrorCode::kInsufficient, "no limit: not counted");
  facts.groups = read_task_groups(machine, process);
  facts.tasks = tasks_of_machine(root);
  const auto read_number = [&root](const char* file) {
    return chain(root.read(file), parse_cgroup_number);
  };
  facts.most_tasks = read_number("proc/sys/kernel/threads-max");
  const auto most_pids = read_number("proc/sys/kernel/pid_max");
  if (facts.most_tasks && most_pids) facts.most_tasks = std::min(*facts.most_tasks, *most_pids);
  return facts;
}

}  // namespace dlprobe
