#include "lib/collect/snapshot/climb.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/os/deadline.h"
#include "lib/os/job_rank.h"
#include "lib/proc/processes.h"

namespace dlprobe {
namespace {

/// Of a forked child nested in forked children ...: no real tree is so deep.
constexpr int kMostSteps = 64;

struct Candidate {
  TrackedProcess process;
  RoleFacts facts;
};

Expected<Candidate> look_at(const Machine& machine, int32_t pid, DeadlineReader& reader) {
  DLP_TRY(TrackedProcess process, open_process(machine, pid));
  std::vector<Error> errors;
  read_info(process, reader, errors);
  RoleFacts facts = process.facts;
  return Candidate{.process = std::move(process), .facts = std::move(facts)};
}

std::optional<LoaderPart> part_of(Candidate& child, const Candidate& parent) {
  child.facts.forked_without_exec =
      forked_without_exec(child.process.last_stat, parent.process.last_stat);
  return belongs_to_parent(child.facts, parent.facts);
}

/// Calls `visit` with each child until it says false.
void for_each_child(const Machine& machine, const Candidate& candidate, DeadlineReader& reader,
                    const std::function<bool(Candidate&)>& visit) {
  const Directory& directory = *candidate.process.directory;
  for (const std::string& tid : directory.list("task").value_or(std::vector<std::string>())) {
    const std::string pids = directory.read("task/" + tid + "/children").value_or("");
    for (const std::string_view field : split_fields(trim(pids))) {
      auto child = look_at(machine, parse_int<int32_t>(field).value_or(0), reader);
      if (child && !visit(*child)) return;
    }
  }
}

/// Whether one of its children is a data worker for certain: then it is the trainer, even if it was
/// itself started by multiprocessing (a rank of a distributed job).
bool has_data_workers(const Machine& machine, const Candidate& candidate, DeadlineReader& reader) {
  bool found = false;
  for_each_child(machine, candidate, reader, [&](Candidate& child) {
    const auto part = part_of(child, candidate);
    found = part && part->role == Role::kWorker && part->certain;
    return !found;
  });
  return found;
}

/// Whether several children of `parent` have data workers: it has started ranks of a job.
bool starts_ranks(const Machine& machine, const Candidate& parent, DeadlineReader& reader) {
  int ranks = 0;
  for_each_child(machine, parent, reader, [&](Candidate& child) {
    if (has_data_workers(machine, child, reader)) ++ranks;
    return ranks < 2;
  });
  return ranks > 1;
}

std::optional<JobRank> rank_of(const Machine& machine, int32_t pid) {
  const auto environment = machine.root->read("proc/" + std::to_string(pid) + "/environ");
  auto rank = environment ? job_rank_of(*environment) : std::nullopt;
  return rank && rank->world_size.value_or(2) > 1 ? rank : std::nullopt;
}

/// A process and all above it, itself first.
std::vector<int32_t> ancestry(const Machine& machine, int32_t pid) {
  std::vector<int32_t> pids;
  while (pid > 0 && pids.size() < kMostSteps) {
    pids.push_back(pid);
    const auto stat = read_pid_stat(*machine.root, pid);
    pid = stat ? stat->ppid : 0;
  }
  return pids;
}

/// Whether it is the shell of a terminal, below which may be anything.
bool leads_a_terminal(const Machine& machine, int32_t pid) {
  const auto stat = read_pid_stat(*machine.root, pid);
  return !stat || (stat->session == pid && stat->terminal != 0);
}

/// Which ranks of a job are below each process of an ancestry, and below none that comes first in
/// it.
using RanksBelow = std::map<size_t, std::set<int32_t>>;

RanksBelow ranks_below(const Machine& machine, const JobRank& rank,
                       const std::vector<int32_t>& ancestry_of_rank) {
  RanksBelow below;
  for (const int32_t pid : list_pids(*machine.root).value_or(std::vector<int32_t>())) {
    if (pid == ::getpid() || std::ranges::count(ancestry_of_rank, pid) > 0) continue;
    const auto other = rank_of(machine, pid);
    if (!other || other->job != rank.job) continue;
    const std::vector<int32_t> above = ancestry(machine, pid);
    const auto common = std::ranges::find_if(
        ancestry_of_rank, [&](int32_t each) { return std::ranges::count(above, each) > 0; });
    below[static_cast<size_t>(common - ancestry_of_rank.begin())].insert(other->rank);
  }
  return below;
}

/// From a rank to the process below which all ranks of its job on this machine are. Two jobs may
/// meet at one address, each in a network of its own, or one after the other: where a number comes
/// up again another one begins.
Expected<ClimbResult> climb_to_launcher(const Machine& machine, ClimbResult found) {
  const auto rank = rank_of(machine, found.key.pid);
  if (!rank) return found;
  const std::vector<int32_t> above = ancestry(machine, found.key.pid);
  size_t level = 0;
  std::set<int32_t> numbers = {rank->rank};
  for (const auto& [higher, ranks] : ranks_below(machine, *rank, above)) {
    if (higher < above.size() && rank_of(machine, above[higher]) == rank) continue;  // its own
    if (std::ranges::any_of(ranks, [&](int32_t each) { return numbers.contains(each); })) break;
    numbers.insert(ranks.begin(), ranks.end());
    level = higher;
  }
  if (level == 0 || level >= above.size() || above[level] <= 1 ||
      leads_a_terminal(machine, above[level]))
    return found;
  DLP_TRY(const ProcessKey launcher, process_key(machine, above[level]));
  found.reason += "; it is a rank of a job (" + own(rank->source) +
                  "), whose ranks are all below " + own(launcher.pid);
  found.key = launcher;
  return found;
}

OwnWords describe_step(const Candidate& child, const Candidate& parent, const LoaderPart& part) {
  return "process " + own(child.process.key.pid) + " is a part of the loader of process " +
         own(parent.process.key.pid) + " (" + own(part.basis) + ")";
}

/// The process that the user named; what it cannot be is an error.
Expected<Candidate> look_at_named(const Machine& machine, int32_t pid, DeadlineReader& reader) {
  auto asked = look_at(machine, pid, reader);
  if (!asked && asked.error().code == ErrorCode::kVanished) {
    return failure(ErrorCode::kVanished,
                   "there is no process " + std::to_string(pid) + " on this machine (any more)");
  }
  if (asked && is_kernel_thread(asked->process.last_stat)) {
    return failure(ErrorCode::kInvalid, "process " + std::to_string(pid) + " is a kernel thread");
  }
  return asked;
}

}  // namespace

Expected<ClimbResult> climb_to_trainer(const Machine& machine, int32_t pid) {
  DeadlineReader reader;
  DLP_TRY(Candidate current, look_at_named(machine, pid, reader));
  OwnWords reason;
  bool from_data_worker = false;
  for (int step = 0; step < kMostSteps && current.process.last_stat.ppid > 1; ++step) {
    auto parent = look_at(machine, current.process.last_stat.ppid, reader);
    if (!parent) break;
    const auto part = part_of(current, *parent);
    if (!part) break;
    const bool is_trainer =
        !part->certain && (from_data_worker || has_data_workers(machine, current, reader));
    if (is_trainer && !starts_ranks(machine, *parent, reader)) break;
    from_data_worker = from_data_worker || (part->role == Role::kWorker && part->certain);
    reason += (reason.empty() ? "" : "; ") + describe_step(current, *parent, *part);
    current = std::move(*parent);
    if (is_trainer) break;
  }
  if (reason.empty()) reason = "process " + own(pid) + " is no part of another's loader";
  return climb_to_launcher(machine, {.key = current.process.key, .reason = std::move(reason)});
}

}  // namespace dlprobe
