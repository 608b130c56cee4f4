#include "lib/session/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/collect/snapshot/access_gap.h"
#include "lib/collect/snapshot/climb.h"
#include "lib/collect/tree/thread_waits.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/os/host_facts.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/processes.h"
#include "lib/session/jobs.h"

namespace dlprobe {
namespace {

std::string folder_of(int32_t pid) {
  return fmt::format("proc/{}", pid);
}

// The kernel opens /proc/TID for every thread, although it lists processes alone.
int32_t process_of(const Machine& machine, int32_t id) {
  const auto status = read_pid_status(*machine.root, id);
  return status ? status->tgid : id;
}

// A zombie has nothing left to look at; somebody else's process may not be looked into.
Status check_that_it_can_be_seen(const Machine& machine, const ProcessKey& key) {
  DLP_TRY(const auto process, machine.root->open_directory(folder_of(key.pid)));
  DLP_TRY(const std::string text, process->read("stat"));
  DLP_TRY(const PidStat stat, parse_pid_stat(text));
  if (has_ended(stat)) {
    return failure(
        ErrorCode::kVanished,
        fmt::format("process {} has ended (a zombie): name a process that still runs", key.pid));
  }
  const int32_t thread = image_thread(*process, key.pid);
  const auto root = process->stat(fmt::format("task/{}/root/.", thread));
  if (root) return {};
  const Gap gap = access_gap(*machine.root, *process, key.pid, root.error());
  const std::string help = gap.remedy.empty() ? "" : "; what would help: " + gap.remedy.plain();
  return failure(root.error().code,
                 fmt::format("cannot look into process {}: {}{}", key.pid, gap.why.plain(), help));
}

/// What a number may mean that is no pid here: the pid inside a container, or a job's id.
std::string other_meanings(const Machine& machine, int32_t number) {
  constexpr size_t kMost = 8;
  std::vector<int32_t> inside;
  std::string of_job;
  for (const int32_t pid : list_pids(*machine.root).value_or(std::vector<int32_t>())) {
    if (pid == ::getpid()) continue;
    const auto status = read_pid_status(*machine.root, pid);
    if (!status) continue;
    const std::vector<int32_t>& pids = status->namespace_pids;  // the first one is `pid`
    if (inside.size() < kMost && std::ranges::count(pids, number) > 0) inside.push_back(pid);
  }
  const auto jobs = find_jobs(machine);
  const std::string id = std::to_string(number);
  for (const LoaderJob& job : jobs ? jobs->jobs : std::vector<LoaderJob>())
    if (std::ranges::count(job.job_ids, id) > 0) of_job = std::to_string(job.root.pid);
  std::string text;
  if (!inside.empty())
    text += fmt::format("; in a container it is the pid of process {}", fmt::join(inside, ", "));
  if (!of_job.empty()) text += fmt::format("; it is the job id of process {}", of_job);
  return text;
}

Expected<ClimbResult> stay(const Machine& machine, int32_t pid) {
  DLP_TRY(const ProcessKey key, process_key(machine, pid));
  return ClimbResult{.key = key, .reason = "process " + own(pid) + " alone was asked for"};
}

}  // namespace

Expected<int32_t> parse_pid(const std::string& text) {
  const auto pid = parse_int<int32_t>(text);
  if (pid && *pid > 0) return *pid;
  return failure(ErrorCode::kInvalid,
                 "'" + text + "' is not a process id: give a whole number from 1 on");
}

Expected<Target> find_target(const Machine& machine, int32_t pid, Climb climb) {
  const int32_t process = process_of(machine, pid);
  if (process == ::getpid()) {
    return failure(ErrorCode::kInvalid,
                   fmt::format("process {} is dlprobe itself: name the job's", pid));
  }
  // Says what is no process, or one of the kernel.
  auto climbed = climb_to_trainer(machine, process);
  if (!climbed && climbed.error().code == ErrorCode::kVanished)
    climbed.error().context += other_meanings(machine, pid);
  DLP_TRY(ClimbResult found, std::move(climbed));
  if (climb == Climb::kStay) {
    DLP_TRY(found, stay(machine, process));
  }
  DLP_CHECK(check_that_it_can_be_seen(machine, found.key));
  Target target{.key = found.key, .reason = std::move(found.reason)};
  if (process != pid) {
    target.notice = fmt::format("{} is a thread of process {}, which is taken", pid, process);
  }
  return target;
}

Expected<int32_t> find_rank_of_own_job(const Machine& machine,
                                       const EnvironmentLookup& environment) {
  const std::string own_job = read_job_facts(environment).job_id;
  if (own_job.empty()) {
    return failure(ErrorCode::kInvalid,
                   "--job needs a scheduler's variable (SLURM_JOB_ID, PBS_JOBID, LSB_JOBID or "
                   "JOB_ID), and none is set here: give the process id");
  }
  const auto own_rank = job_rank_of(environment);
  DLP_TRY(const auto pids, list_pids(*machine.root));
  for (const int32_t pid : pids) {
    if (pid == ::getpid()) continue;
    const auto text = machine.root->read(folder_of(pid) + "/environ");
    if (!text || read_job_facts(variables_of(*text)).job_id != own_job) continue;
    const auto rank = job_rank_of(*text);
    const bool is_own_step = rank && own_rank && rank->job == own_rank->job;
    if (rank && !is_own_step) return pid;
  }
  return failure(ErrorCode::kVanished,
                 fmt::format("no rank of job {} runs on this machine, beside this step", own_job));
}

Refusal::Kind kind_of_refused_target(const Error& error) {
  return error.code == ErrorCode::kForbidden ? Refusal::Kind::kIncomplete
                                             : Refusal::Kind::kImpossible;
}

}  // namespace dlprobe
