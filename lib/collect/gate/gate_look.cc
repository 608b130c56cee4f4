#include "lib/collect/gate/gate_look.h"

#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/parse.h"
#include "lib/collect/tasks/task_look.h"
#include "lib/collect/tree/cgroup_reader.h"
#include "lib/collect/tree/cpu_quota.h"
#include "lib/os/folder_try.h"
#include "lib/os/host_facts.h"
#include "lib/proc/pid_status.h"

namespace dlprobe {
namespace {

constexpr uint64_t kMostEntries = 1000;

Expected<uint64_t> number_in(const Directory& root, std::string_view file, size_t field = 0) {
  DLP_TRY(const std::string text, root.read(file));
  const auto fields = split_fields(trim(text));
  const auto number = field < fields.size() ? parse_int<uint64_t>(fields[field]) : std::nullopt;
  if (!number) return failure(ErrorCode::kMalformed, "read /" + std::string(file));
  return *number;
}

// Of those with a limit, the group with the least room.
const TaskGroup* nearest_limit(const std::vector<TaskGroup>& groups) {
  const TaskGroup* nearest = nullptr;
  const auto room = [](const TaskGroup& group) {
    return *group.limit - std::min(*group.limit, group.taken);
  };
  for (const TaskGroup& group : groups) {
    if (group.limit && (nearest == nullptr || room(group) < room(*nearest))) nearest = &group;
  }
  return nearest;
}

FolderFacts facts_of(const std::string& path, const Expected<FolderTry>& tried,
                     std::chrono::nanoseconds patience) {
  // A shorter silence says more of the deadline than of the folder.
  constexpr std::chrono::seconds kTelling{1};
  FolderFacts facts{.path = path};
  if (tried) {
    facts.free_bytes = tried->free_bytes;
    facts.entries = tried->entries;
    facts.trouble = tried->trouble;
  } else if (tried.error().code == ErrorCode::kTimeout && patience >= kTelling) {
    facts.trouble = "it did not answer in time (a network file system without its server?)";
  } else {
    facts.not_known = to_string(tried.error());
  }
  return facts;
}

FolderFacts look_at_folder(const std::string& path, FolderUse use, const GateWish& wish) {
  return facts_of(path, try_folder_within(wish.patience, path, use, kMostEntries), wish.patience);
}

}  // namespace

GateFacts look_at_gate(const Machine& machine, const GateWish& wish) {
  const Directory& root = *machine.root;
  GateFacts facts;
  facts.at = machine.clock->now();
  const std::string status = root.read("proc/self/status").value_or("");
  facts.may_trace_all = has_capability(status, CAP_SYS_PTRACE);
  if (const auto self = root.open_directory("proc/self")) {
    const TaskFacts tasks = read_task_facts(machine, **self);
    facts.is_root = tasks.is_exempt;
    facts.processes = tasks.processes;
    facts.tasks_of_user = tasks.tasks_of_user;
    if (const TaskGroup* nearest = nearest_limit(tasks.groups)) {
      facts.cgroup_tasks = nearest->taken;
      facts.cgroup_tasks_limit = nearest->limit;
    }
    facts.tasks = tasks.tasks;
    facts.most_tasks = tasks.most_tasks;
    auto reader = CgroupReader::open(machine, **self);
    if (reader) {
      if (auto memory = reader->read(facts.at)) facts.cgroup = std::move(*memory);
    }
  }
  facts.files_open = number_in(root, "proc/sys/fs/file-nr");
  facts.most_files = number_in(root, "proc/sys/fs/file-nr", 2);
  facts.memory = read_host_memory(root);
  if (const auto cpus = online_cpus(root)) facts.cpus_online = static_cast<uint32_t>(cpus->size());
  facts.cpus_usable = static_cast<uint32_t>(usable_cpus().size());
  if (const auto quota = read_cpu_quota(machine).value_or(std::nullopt)) {
    facts.cpu_quota = quota->cpus;
    facts.cpu_quota_source = quota->source;
  }
  facts.thread_settings = wish.thread_settings;
  const auto scope = number_in(root, "proc/sys/kernel/yama/ptrace_scope");
  if (scope) {
    facts.ptrace_scope = static_cast<int32_t>(*scope);
  } else if (scope.error().code == ErrorCode::kNotFound) {
    facts.ptrace_scope = 0;  // a kernel without Yama
  } else {
    facts.ptrace_scope = std::unexpected(scope.error());
  }
  facts.shared_memory = look_at_folder("/dev/shm", FolderUse::kWrite, wish);
  facts.temporary = look_at_folder(wish.temporary_folder, FolderUse::kWrite, wish);
  if (!wish.data_folder.empty())
    facts.data = look_at_folder(wish.data_folder, FolderUse::kRead, wish);
  return facts;
}

}  // namespace dlprobe
