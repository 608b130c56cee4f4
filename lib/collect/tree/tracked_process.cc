#include "lib/collect/tree/tracked_process.h"

#include <array>
#include <chrono>
#include <utility>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/base/secrets.h"
#include "lib/collect/tree/thread_waits.h"
#include "lib/os/job_rank.h"
#include "lib/proc/pid_cgroup.h"
#include "lib/proc/pid_limits.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/processes.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

/// What is read once in the life of a process may take longer than what is read at every sample: a
/// busy machine is no reason not to know it.
constexpr auto kPatienceOnce = std::chrono::milliseconds(500);

/// ENOENT of a process's own directory means that the process is gone.
Error as_vanished(Error error) {
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kVanished;
  return error;
}

Observed<std::string> memory_cgroup_path(const Directory& process) {
  DLP_TRY(const std::string text, process.read("cgroup"));
  DLP_TRY(const auto entries, parse_pid_cgroup(text));
  const CgroupEntry* entry = controller_cgroup(entries, "memory");
  if (entry == nullptr)
    return failure(ErrorCode::kNotFound, "no memory cgroup in " + join_path(process, "cgroup"));
  return entry->path;
}

/// A process on its way out lets go of its memory first, then of its cgroup: v1 says "/" from then
/// on (exit_mm and cgroup_exit in do_exit).
bool has_memory(const Directory& process) {
  const auto stat = chain(process.read("stat"), parse_pid_stat);
  return stat && stat->start_code != 0;
}

/// Where the program is to be seen: of a main thread that has ended nothing is left.
std::shared_ptr<const Directory> image_directory(const TrackedProcess& process) {
  if (process.last_stat.state != 'Z') return process.directory;
  const int32_t tid = image_thread(*process.directory, process.key.pid);
  return process.directory->open_directory("task/" + std::to_string(tid))
      .value_or(process.directory);
}

std::vector<std::string> split_command_line(std::string_view text) {
  if (text.ends_with('\0')) text.remove_suffix(1);
  std::vector<std::string> arguments;
  if (text.empty()) return arguments;
  for (const std::string_view argument : split(text, '\0'))
    arguments.emplace_back(argument);
  return arguments;
}

}  // namespace

Expected<TrackedProcess> open_process(const Machine& machine, int32_t pid) {
  TrackedProcess process;
  auto directory = machine.root->open_directory("proc/" + std::to_string(pid));
  if (!directory) return std::unexpected(as_vanished(directory.error()));
  process.directory = std::move(*directory);
  auto stat = process.directory->keep_file("stat");
  if (!stat) return std::unexpected(as_vanished(stat.error()));
  process.stat = std::move(*stat);
  DLP_CHECK(read_stat(process));
  process.key = {.pid = pid, .start_ticks = process.last_stat.start_ticks};
  auto statm = process.directory->keep_file("statm");
  if (!statm) return std::unexpected(as_vanished(statm.error()));
  process.statm = std::move(*statm);
  const std::string main_thread = "task/" + std::to_string(pid);
  process.children = process.directory->keep_file(main_thread + "/children").value_or(nullptr);
  process.descriptors = process.directory->open_directory("fd").value_or(nullptr);
  if (auto pidfd = machine.processes->open_pidfd(pid)) {
    process.pidfd = std::move(*pidfd);
    // The pid may have gone to another process between the two: then stat says so.
    DLP_CHECK(read_stat(process));
  } else {
    process.pidfd_error = pidfd.error();
  }
  process.facts.key = process.key;
  process.info.key = process.key;
  return process;
}

Status read_stat(TrackedProcess& process) {
  std::array<char, 2048> buffer;
  auto text = process.stat->read(buffer);
  if (!text) return std::unexpected(as_vanished(text.error()));
  DLP_TRY(process.last_stat, parse_pid_stat(*text));
  if (process.last_stat.start_code > 1) process.may_see_memory = true;
  return {};
}

void read_info(TrackedProcess& process, DeadlineReader& reader, std::vector<Error>& errors) {
  const auto image = image_directory(process);
  const Directory& directory = *image;
  ProcessInfo& info = process.info;
  RoleFacts& facts = process.facts;
  info.ppid = process.last_stat.ppid;
  info.comm = process.last_stat.comm;
  info.exe = directory.read_link("exe");
  info.mount_namespace = namespace_of(directory, "mnt");
  refresh_cgroup(process);
  const auto limits = directory.read("limits");
  info.open_files_limit = chain(limits, parse_open_files_limit);
  info.cpu_time_limit = chain(limits, parse_cpu_time_limit);
  info.file_size_limit = chain(limits, parse_file_size_limit);
  info.stack_limit = chain(limits, parse_stack_limit);
  info.session = process.last_stat.session;
  if (const auto command = reader.read(image, "cmdline", kPatienceOnce)) {
    facts.cmdline = split_command_line(*command);
    info.cmdline = mask_secrets(facts.cmdline);
  } else if (command.error().code != ErrorCode::kVanished &&
             command.error().code != ErrorCode::kNotFound) {
    errors.push_back(command.error());
  }
  if (const auto environment = reader.read(image, "environ", kPatienceOnce)) {
    if (auto rank = job_rank_of(*environment)) process.facts.rank = info.rank = std::move(rank);
  }
  const auto status = chain(directory.read("status"), parse_pid_status);
  if (status) {
    info.uid = status->uid;
    info.namespace_pids = status->namespace_pids;
    facts.signals_caught = status->signals_caught;
    info.signals_caught = status->signals_caught;
  } else {
    info.uid = std::unexpected(status.error());
    info.signals_caught = std::unexpected(status.error());
  }
  facts.comm = info.comm;
  facts.exe_name = info.exe ? std::string(base_name(without_deleted(*info.exe))) : "";
  process.info_changed = true;
}

void refresh_cgroup(TrackedProcess& process) {
  auto now = memory_cgroup_path(*process.directory);
  if (process.info.cgroup == now) return;
  if (now ? !has_memory(*process.directory) : process.info.cgroup.has_value()) return;
  process.info.cgroup = std::move(now);
  process.info_changed = true;
}

Expected<uint64_t> namespace_of(const Directory& process, std::string_view kind) {
  const std::string file = "ns/" + std::string(kind);
  DLP_TRY(const std::string text, process.read_link(file));  // "mnt:[4026531841]"
  const size_t open = text.find('[');
  if (open != std::string::npos && text.ends_with(']')) {
    const auto id =
        parse_int<uint64_t>(std::string_view(text).substr(open + 1, text.size() - open - 2));
    if (id) return *id;
  }
  return malformed("/proc/PID/" + file, "not a namespace", text);
}

bool is_alive(const TrackedProcess& process) {
  return !process.vanished && !process.ended_at && !has_ended(process.last_stat);
}

bool identity_changed(const PidStat& before, const PidStat& now) {
  // What is about to end has no memory any more: its program can no longer be told.
  const bool has_memory = now.start_code != 0;
  const bool new_program = before.start_code != now.start_code || before.arg_start != now.arg_start;
  return has_memory && (before.comm != now.comm || new_program);
}

std::optional<bool> forked_without_exec(const PidStat& child, const PidStat& parent) {
  // 1 without the right to see it, 0 of a zombie.
  if (child.start_code <= 1 || parent.start_code <= 1) return std::nullopt;
  return child.start_code == parent.start_code && child.start_stack == parent.start_stack &&
         child.arg_start == parent.arg_start;
}

bool is_orphan(const Machine& machine, const PidStat& stat) {
  if (!is_forked_without_exec(stat)) return false;
  const auto parent = read_pid_stat(*machine.root, stat.ppid);
  // A trainer may be the init of its container. Of the machine's own init the addresses are hidden
  // from most.
  const auto same_program = parent ? forked_without_exec(stat, *parent) : std::nullopt;
  return same_program ? !*same_program : stat.ppid == 1;
}

Expected<ProcessKey> process_key(const Machine& machine, int32_t pid) {
  auto text = machine.root->read("proc/" + std::to_string(pid) + "/stat");
  if (!text) return std::unexpected(as_vanished(text.error()));
  DLP_TRY(const PidStat stat, parse_pid_stat(*text));
  return ProcessKey{.pid = pid, .start_ticks = stat.start_ticks};
}

}  // namespace dlprobe
