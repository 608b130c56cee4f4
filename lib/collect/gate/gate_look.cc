#include "lib/collect/gate/gate_look.h"

#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/parse.h"
#include "lib/collect/tree/cgroup_reader.h"
#include "lib/collect/tree/cpu_quota.h"
#include "lib/os/folder_try.h"
#include "lib/os/host_facts.h"
#include "lib/proc/pid_cgroup.h"
#include "lib/proc/pid_limits.h"
#include "lib/proc/pid_stat.h"
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

// "0-3,8" is five.
uint32_t count_of_list(std::string_view list) {
  uint32_t count = 0;
  for (const std::string_view range : split(trim(list), ',')) {
    const auto ends = split(range, '-');
    const auto first = parse_int<uint32_t>(ends.front());
    const auto last = parse_int<uint32_t>(ends.back());
    if (first && last && *last >= *first) count += *last - *first + 1;
  }
  return count;
}

// Threads of the user's processes: what RLIMIT_NPROC counts.
Expected<uint64_t> tasks_of_user(const Directory& root, uint32_t uid) {
  DLP_TRY(const std::vector<std::string> names, root.list("proc"));
  uint64_t tasks = 0;
  for (const std::string& name : names) {
    if (!parse_int<int32_t>(name)) continue;
    const auto owner = root.stat("proc/" + name);
    if (!owner || owner->uid != uid) continue;
    const auto stat = chain(root.read("proc/" + name + "/stat"), parse_pid_stat);
    if (stat) tasks += static_cast<uint64_t>(std::max(stat->threads, 0));
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

void read_pids_group(const Directory& root, GateFacts& facts) {
  const auto entries = chain(root.read("proc/self/cgroup"), parse_pid_cgroup);
  if (!entries) return;
  for (const CgroupEntry& entry : *entries) {
    const bool is_pids = std::ranges::find(entry.controllers, "pids") != entry.controllers.end();
    if (!is_pids && entry.hierarchy != 0) continue;
    const std::string folder =
        std::string("sys/fs/cgroup") + (entry.hierarchy == 0 ? "" : "/pids") + entry.path;
    const auto limit = number_in(root, folder + "/pids.max");
    if (!limit) continue;
    facts.cgroup_tasks_limit = *limit;
    if (const auto now = number_in(root, folder + "/pids.current")) facts.cgroup_tasks = *now;
    return;
  }
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
    facts.trouble = "it did not answer in time (a network file system whose server is gone?)";
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
  facts.is_root = has_capability(status, CAP_SYS_RESOURCE);
  facts.processes = chain(root.read("proc/self/limits"), parse_processes_limit);
  const bool is_limited = facts.processes && facts.processes->soft && !facts.is_root;
  facts.tasks_of_user = is_limited ? tasks_of_user(root, ::geteuid())
                                   : failure(ErrorCode::kInsufficient, "no limit: not counted");
  read_pids_group(root, facts);
  facts.tasks = tasks_of_machine(root);
  facts.most_tasks = number_in(root, "proc/sys/kernel/threads-max");
  const auto most_pids = number_in(root, "proc/sys/kernel/pid_max");
  if (facts.most_tasks && most_pids) facts.most_tasks = std::min(*facts.most_tasks, *most_pids);
  facts.files_open = number_in(root, "proc/sys/fs/file-nr");
  facts.most_files = number_in(root, "proc/sys/fs/file-nr", 2);
  facts.memory = read_host_memory(root);
  if (const auto self = root.open_directory("proc/self")) {
    auto reader = CgroupReader::open(machine, **self);
    if (reader) {
      if (auto memory = reader->read(facts.at)) facts.cgroup = std::move(*memory);
    }
  }
  facts.cpus_online = count_of_list(root.read("sys/devices/system/cpu/online").value_or(""));
  facts.cpus_usable = static_cast<uint32_t>(usable_cpus());
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
