#include "lib/session/jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "lib/base/lower_case.h"
#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/collect/shm/holdings.h"
#include "lib/collect/snapshot/climb.h"
#include "lib/collect/snapshot/last_run.h"
#include "lib/collect/tree/roles.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/os/deadline.h"
#include "lib/os/host_facts.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/processes.h"

namespace dlprobe {
namespace {

constexpr size_t kMostOfOneJob = 4096;  ///< processes; the others of a larger tree are not counted

/// A process of the machine.
struct Seen {
  PidStat stat;
  RoleFacts facts;
  std::vector<std::string> command;  ///< secrets masked; of candidates
  std::optional<uint32_t> uid;       ///< of candidates
  bool may_look = true;
};

/// Whose command line and signals are worth reading. It decides nothing: roles.h does.
bool is_candidate(const Seen& seen) {
  const RoleFacts& facts = seen.facts;
  if (is_python(facts) || is_forked_without_exec(seen.stat)) return true;
  const bool has_name_of_one = facts.comm.starts_with("python") || facts.comm == "pt_data_worker";
  return has_name_of_one || facts.comm.starts_with("dlp-");
}

/// The name of a user in /etc/passwd; of others the number. getpwuid(3) would ask servers that may
/// not answer.
std::string user_name(const Machine& machine, std::optional<uint32_t> uid) {
  if (!uid) return "?";
  const std::string wanted = std::to_string(*uid);
  std::string name = wanted;
  for_each_line(machine.root->read("etc/passwd").value_or(""), [&](std::string_view line) {
    const auto fields = split(line, ':');
    if (fields.size() > 2 && fields[2] == wanted && name == wanted) name = fields[0];
  });
  return name;
}

JobState state_of(const std::string& states) {
  const auto has = [&](char state) { return states.contains(state); };
  if (has('T') || has('t')) return JobState::kStopped;
  if (has('R')) return JobState::kComputes;
  return has('D') ? JobState::kWaitsForStorage : JobState::kWaits;
}

class JobFinder {
 public:
  explicit JobFinder(const Machine& machine) : machine_(machine), last_run_(machine) {}

  Expected<LoaderJobs> find() {
    DLP_CHECK(read_processes());
    read_candidates();
    LoaderJobs found;
    for (const ProcessKey& root : roots()) {
      if (auto job = job_below(root)) found.jobs.push_back(std::move(*job));
    }
    std::ranges::sort(found.jobs, {},
                      [](const LoaderJob& job) { return std::tuple(job.is_pool, job.root); });
    for (const auto& [pid, seen] : all_) {
      if (is_orphaned_worker(seen.facts))
        found.orphans.push_back({.key = seen.facts.key,
                                 .user = user_name(machine_, seen.uid),
                                 .age_ns = age_of(seen.facts.key)});
    }
    found.unseen = static_cast<size_t>(std::ranges::count_if(
        all_, [this](const auto& entry) { return may_be_unseen_trainer(entry.second); }));
    return found;
  }

 private:
  /// Whether a job may be missing because it cannot be looked into: it has forked children that
  /// have not called execve, or runs Python by its name.
  bool may_be_unseen_trainer(const Seen& seen) const {
    const auto below = children_.find(seen.facts.key.pid);
    if (seen.may_look || below == children_.end()) return false;
    return std::ranges::any_of(below->second, [this](int32_t child) {
      const auto found = all_.find(child);
      return found != all_.end() && is_candidate(found->second);
    });
  }

  Status read_processes() {
    DLP_TRY(const auto pids, list_pids(*machine_.root));
    for (const int32_t pid : pids) {
      if (pid == ::getpid()) continue;
      auto stat = read_pid_stat(*machine_.root, pid);
      if (!stat || is_kernel_thread(*stat) || has_ended(*stat)) continue;
      Seen seen{.stat = std::move(*stat)};
      seen.facts.key = {.pid = pid, .start_ticks = seen.stat.start_ticks};
      seen.facts.comm = seen.stat.comm;
      const auto exe = machine_.root->read_link(fmt::format("proc/{}/exe", pid));
      if (exe) seen.facts.exe_name = base_name(without_deleted(*exe));
      seen.may_look = exe || exe.error().code != ErrorCode::kForbidden;
      children_[seen.stat.ppid].push_back(pid);
      all_.emplace(pid, std::move(seen));
    }
    return {};
  }

  void read_candidates() {
    std::set<int32_t> wanted;
    for (const auto& [pid, seen] : all_) {
      if (!is_candidate(seen)) continue;
      wanted.insert(pid);
      if (all_.contains(seen.stat.ppid)) wanted.insert(seen.stat.ppid);
    }
    for (const int32_t pid : wanted)
      read_more(all_.at(pid));
    for (auto& [pid, seen] : all_) {
      const Seen* parent = parent_of(seen);
      if (parent == nullptr) continue;
      seen.facts.parent = parent->facts.key;
      seen.facts.forked_without_exec = forked_without_exec(seen.stat, parent->stat);
      seen.facts.orphaned = is_orphan(machine_, seen.stat);
    }
  }

  void read_more(Seen& seen) {
    auto process = open_process(machine_, seen.facts.key.pid);
    if (!process || process->key != seen.facts.key) return;
    std::vector<Error> errors;
    read_info(*process, reader_, errors);
    seen.facts = process->facts;
    seen.command = std::move(process->info.cmdline);
    if (process->info.uid) seen.uid = *process->info.uid;
  }

  const Seen* parent_of(const Seen& seen) const {
    const auto found = all_.find(seen.stat.ppid);
    return found == all_.end() ? nullptr : &found->second;
  }

  /// Whom it makes batches for; null where it is no worker of a living process.
  const Seen* consumer_of(const Seen& seen) {
    const Seen* parent = parent_of(seen);
    if (parent == nullptr || seen.facts.orphaned) return nullptr;
    const auto part = belongs_to_parent(seen.facts, parent->facts);
    if (!part || part->role != Role::kWorker) return nullptr;
    const Seen* above = parent_of(*parent);
    const auto own = above ? belongs_to_parent(parent->facts, above->facts) : std::nullopt;
    const Seen* consumer = own && own->role == Role::kForkserver ? above : parent;
    if (part->certain) sure_.insert(consumer->facts.key.pid);
    return consumer;
  }

  /// One process of each job: of a distributed one that names itself, of any rank.
  std::vector<int32_t> one_of_each() {
    std::set<int32_t> trainers;
    for (const auto& [pid, seen] : all_) {
      if (const Seen* consumer = consumer_of(seen)) trainers.insert(consumer->facts.key.pid);
      if (rank_of(seen) != nullptr) trainers.insert(pid);
    }
    std::vector<int32_t> result;
    std::set<std::string> jobs;
    for (const int32_t pid : trainers) {
      const JobRank* rank = rank_of(all_.at(pid));
      const bool is_named = rank != nullptr && !rank->job.empty();
      if (!is_named || jobs.insert(rank->job).second) result.push_back(pid);
    }
    return result;
  }

  /// Of a distributed job; null where it is of none.
  static const JobRank* rank_of(const Seen& seen) {
    const auto& rank = seen.facts.rank;
    return rank && rank->world_size.value_or(2) > 1 && is_python(seen.facts) ? &*rank : nullptr;
  }

  /// What `attach` would take for each job.
  std::set<ProcessKey> roots() {
    std::set<ProcessKey> result;
    for (const int32_t pid : one_of_each()) {
      if (const auto climbed = climb_to_trainer(machine_, pid)) result.insert(climbed->key);
    }
    return result;
  }

  std::vector<RoleFacts> tree_below(const ProcessKey& root) const {
    std::vector<RoleFacts> tree;
    std::vector<int32_t> pending = {root.pid};
    for (size_t i = 0; i < pending.size() && i < kMostOfOneJob; ++i) {
      const auto found = all_.find(pending[i]);
      if (found == all_.end()) continue;
      tree.push_back(found->second.facts);
      const auto below = children_.find(pending[i]);
      if (below != children_.end())
        pending.insert(pending.end(), below->second.begin(), below->second.end());
    }
    return tree;
  }

  std::optional<LoaderJob> job_below(const ProcessKey& root) {
    const auto found = all_.find(root.pid);
    if (found == all_.end() || found->second.facts.key != root) return std::nullopt;
    const std::vector<RoleFacts> tree = tree_below(root);
    const std::vector<RoleAnswer> roles = assign_roles(tree, root);
    const Seen& top = found->second;
    LoaderJob job{.root = root, .user = user_name(machine_, top.uid)};
    job.command = top.command;
    job.may_look = top.may_look;
    job.is_pool = true;
    std::string states;
    BootNs longest_wait = 0;
    for (size_t i = 0; i < tree.size(); ++i) {
      const bool is_trainer = roles[i].role == Role::kTrainer;
      if (!is_trainer && roles[i].role != Role::kWorker) continue;
      const Seen& seen = all_.at(tree[i].key.pid);
      states += seen.stat.state;
      longest_wait = std::max(longest_wait, wait_of(seen));
      if (!is_trainer) {
        ++job.workers;
        continue;
      }
      const bool is_rank = rank_of(seen) != nullptr;
      if (is_rank) ++job.ranks;
      if (is_rank || sure_.contains(seen.facts.key.pid)) job.is_pool = false;
      if (job.trainer_command.empty()) {
        job.trainer_command = seen.command;
        job.job_ids = ids_of(seen.facts.key.pid);
      }
    }
    if (job.workers == 0 && job.ranks == 0) return std::nullopt;
    job.state = state_of(states);
    constexpr BootNs kWorthSaying = 10 * kSecond;
    if (!job.is_pool && longest_wait >= kWorthSaying) job.longest_wait_ns = longest_wait;
    job.age_ns = age_of(root);
    job.shm_bytes = shm_of(tree);
    return job;
  }

  /// How long its main thread has not run; 0 where that is not known.
  BootNs wait_of(const Seen& seen) {
    const int32_t pid = seen.facts.key.pid;
    const auto process = machine_.root->open_directory(fmt::format("proc/{}", pid));
    if (seen.stat.state == 'R' || !process) return 0;
    const auto ran = last_run_.of(**process, fmt::format("task/{}", pid), seen.stat.processor);
    return ran ? machine_.clock->now() - *ran : 0;
  }

  std::optional<uint64_t> shm_of(const std::vector<RoleFacts>& tree) {
    std::vector<int32_t> pids(tree.size());
    std::ranges::transform(tree, pids.begin(), [](const RoleFacts& each) { return each.key.pid; });
    const auto held = shm_held_by(reader_, machine_, pids);
    return held ? std::optional(*held) : std::nullopt;
  }

  std::vector<std::string> ids_of(int32_t pid) {
    std::vector<std::string> ids;
    const auto directory = machine_.root->open_directory(fmt::format("proc/{}", pid));
    if (!directory) return ids;
    const auto text = reader_.read(*directory, "environ");
    if (!text) return ids;
    const EnvironmentLookup environment = variables_of(*text);
    const std::string run = environment("TORCHELASTIC_RUN_ID").value_or("");
    for (const std::string& id : {read_job_facts(environment).job_id, run}) {
      // torchrun says "none" where nobody has named the run.
      if (!id.empty() && id != "none" && std::ranges::count(ids, id) == 0) ids.push_back(id);
    }
    return ids;
  }

  BootNs age_of(const ProcessKey& key) const {
    return std::max<BootNs>(0, machine_.clock->now() - ns_of_ticks(key.start_ticks));
  }

  const Machine& machine_;
  DeadlineReader reader_;
  LastRun last_run_;
  std::map<int32_t, Seen> all_;
  std::map<int32_t, std::vector<int32_t>> children_;
  std::set<int32_t> sure_;  ///< those that have data workers for certain
};

bool is_called(const LoaderJob& job, std::string_view name) {
  if (std::ranges::count(job.job_ids, name) > 0) return true;
  const auto has = [&](const std::vector<std::string>& command) {
    return std::ranges::any_of(command, [&](const std::string& argument) {
      return argument == name || base_name(argument) == name;
    });
  };
  return has(job.command) || has(job.trainer_command);
}

bool has_somewhere(const LoaderJob& job, std::string_view name) {
  const std::string commands =
      fmt::format("{} {}", fmt::join(job.command, " "), fmt::join(job.trainer_command, " "));
  return lower_case(commands).contains(lower_case(name));
}

}  // namespace

Expected<LoaderJobs> find_jobs(const Machine& machine) {
  return JobFinder(machine).find();
}

std::vector<LoaderJob> jobs_named(const std::vector<LoaderJob>& jobs, std::string_view name) {
  std::vector<LoaderJob> found;
  if (name.empty()) return found;
  std::ranges::copy_if(jobs, std::back_inserter(found),
                       [&](const LoaderJob& job) { return is_called(job, name); });
  if (!found.empty()) return found;
  std::ranges::copy_if(jobs, std::back_inserter(found),
                       [&](const LoaderJob& job) { return has_somewhere(job, name); });
  return found;
}

}  // namespace dlprobe
