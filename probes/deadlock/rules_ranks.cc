// Ranks of this machine that others wait for: what judge_ranks says of them, with the proof that
// the looks at them give.

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <utility>

#include "lib/base/number_ranges.h"
#include "lib/model/missing_ranks.h"
#include "lib/model/rank_words.h"
#include "probes/deadlock/judge_ranks.h"
#include "probes/deadlock/rank_remedies.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::deadlock {
namespace {

/// The ranks of one job.
struct Job {
  std::vector<Rank> ranks;        ///< that the last snapshot shows
  std::vector<RankState> states;  ///< theirs, and then those of ranks that have ended
};

// Ranks whose launcher has not told their job are of one job with those that one process started.
std::string name_of_job(const ProcessInfo& rank, const std::set<std::string>& shared) {
  const std::string told = rank.rank ? rank.rank->job : "";
  const bool is_enough = !told.empty() && !shared.contains(told);
  return is_enough ? told : told + " below " + std::to_string(rank.ppid);
}

// Names that several jobs have: two meet at one address, each in a network of its own, or one is
// what is left of an earlier one. Of one job no two ranks have the same number.
std::set<std::string> shared_names(const Facts& facts) {
  std::set<std::pair<std::string, int32_t>> seen;
  std::set<std::string> shared;
  for (const Rank& rank : ranks_of(facts)) {
    const ProcessInfo* info = facts.threads[rank.trainer].info;
    const JobRank* id = info == nullptr ? nullptr : info->rank_of_several();
    if (id != nullptr && !seen.emplace(id->job, id->rank).second) shared.insert(id->job);
  }
  return shared;
}

// Of a TCP socket the path is the address of its other end.
bool waits_on_loopback(const Facts& facts, const Rank& rank) {
  const ThreadSnapshot& thread = *facts.threads[thread_of(facts, rank)].thread;
  return std::ranges::any_of(thread.wait.files, [](const WaitedFile& file) {
    return file.kind == FileKind::kSocket &&
           (file.path.starts_with("127.") || file.path.starts_with("[::1]"));
  });
}

// A rank that had ended before anybody looked: of all that one process started, one is missing, or
// nobody tells how many they are, and one child of that process has ended.
void add_unnamed_end(const Facts& facts, Job& job) {
  const MissingRanks missing = missing_ranks(job.states);
  const bool has_numbers = job.states.front().id.has_value();
  if (has_numbers && count_in(missing.numbers) != 1) return;
  const int32_t parent = facts.threads[job.ranks.front().trainer].info->ppid;
  const bool have_one_parent = std::ranges::all_of(job.ranks, [&](const Rank& each) {
    return facts.threads[each.trainer].info->ppid == parent;
  });
  JobRank id = job.states.front().id.value_or(JobRank());
  if (has_numbers) id.rank = static_cast<int32_t>(missing.numbers.front().first);
  auto end = have_one_parent ? unnamed_end(*facts.run, parent, id) : std::nullopt;
  if (!end) return;
  if (!has_numbers) end->id.reset();
  // Where nobody tells who is a rank, what ended well may have been something else.
  if (has_numbers || end->wait_status.value_or(0) != 0) job.states.push_back(std::move(*end));
}

// Whether a rank of the one job started one of the other.
bool starts_one_of(const Facts& facts, const Job& job, const Job& other) {
  return std::ranges::any_of(other.ranks, [&](const Rank& child) {
    const ProcessInfo* info = facts.threads[child.trainer].info;
    return info != nullptr && std::ranges::any_of(job.ranks, [&](const Rank& rank) {
             return facts.threads[rank.trainer].process->key.pid == info->ppid;
           });
  });
}

// A rank that started the others (Lightning's) was told no job, they were.
void join_with_children(const Facts& facts, std::map<std::string, Job>& jobs) {
  std::erase_if(jobs, [&](const auto& entry) {
    const Job& job = entry.second;
    const JobRank id = job.states.front().id.value_or(JobRank());
    if (!job.states.front().id || !id.job.empty()) return false;
    const auto own = std::ranges::find_if(jobs, [&](const auto& each) {
      const auto& other = each.second.states.front().id;
      return other && !other->job.empty() && other->world_size == id.world_size &&
             starts_one_of(facts, job, each.second);
    });
    if (own == jobs.end()) return false;
    std::ranges::copy(job.ranks, std::back_inserter(own->second.ranks));
    for (RankState state : job.states) {
      state.id->job = own->first;
      own->second.states.push_back(std::move(state));
    }
    return true;
  });
}

// One waits for a lock that a rank has which waits for it in an operation of all.
void close_circles(const Facts& facts, Job& job) {
  const auto waits_for_others = [&](size_t thread) {
    for (size_t i = 0; i < job.ranks.size(); ++i)
      if (facts.threads[job.ranks[i].trainer].process == facts.threads[thread].process)
        return job.states[i].meeting && job.states[i].meeting->stands;
    return false;
  };
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    const Need& need = facts.threads[thread_of(facts, job.ranks[i])].need;
    const bool is_in_circle = job.states[i].doing == RankDoing::kWaits && need.has_one_holder() &&
                              !need.others_may && !need.providers.empty() &&
                              std::ranges::all_of(need.providers, waits_for_others);
    if (is_in_circle) job.states[i].other.has_no_end = true;
  }
}

std::vector<Job> jobs_of(const Facts& facts, const std::vector<RootCause>& known) {
  std::map<std::string, Job> jobs;
  const std::set<std::string> shared = shared_names(facts);
  for (Rank& rank : ranks_of(facts)) {
    RankState state = state_of(facts, rank, known);
    if (state.meeting) state.meeting->is_local = waits_on_loopback(facts, rank);
    Job& job = jobs[state.id ? name_of_job(*facts.threads[rank.trainer].info, shared) : ""];
    job.ranks.push_back(std::move(rank));
    job.states.push_back(std::move(state));
  }
  join_with_children(facts, jobs);
  for (RankState& ended : ended_ranks(*facts.run)) {
    const auto info = std::ranges::find(facts.run->processes, ended.process, &ProcessInfo::key);
    const auto job = jobs.find(name_of_job(*info, shared));
    if (job != jobs.end()) job->second.states.push_back(std::move(ended));
  }
  for (Job& job : jobs | std::views::values) {
    add_unnamed_end(facts, job);
    close_circles(facts, job);
  }
  std::vector<Job> found;
  std::ranges::move(jobs | std::views::values, std::back_inserter(found));
  return found;
}

// What the loaders of ranks that others wait for are at, as far as nothing is known of these ranks.
std::vector<RootCause> look_at_loaders(const Facts& facts, Job& job) {
  std::vector<RootCause> causes;
  if (!all_waiting_stand(job.states)) return causes;
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    RankState& state = job.states[i];
    if (state.cause) continue;
    std::vector<RootCause> of_loader = fifos_without_peer(facts, {job.ranks[i]});
    if (of_loader.empty() && state.doing == RankDoing::kWaitsForBatch) {
      of_loader = find_slow_workers(facts, job.ranks[i]);
    } else if (of_loader.empty()) {
      if (auto busy = busy_in_loader(facts, job.ranks[i])) of_loader.push_back(std::move(*busy));
    }
    if (of_loader.empty()) continue;
    const Finding& first = of_loader.front().finding;
    state.cause = RankCause{.code = first.code, .severity = first.severity};
    std::ranges::move(of_loader, std::back_inserter(causes));
  }
  return causes;
}

// With what the looks at that thread prove.
Finding with_proof(const Facts& facts, Finding judged, const ThreadFacts& thread) {
  const Finding proven = finding_about(facts, judged.code, judged.confidence, thread);
  for (Evidence& piece : judged.evidence)
    piece.at = facts.last->at;
  judged.evidence.insert(judged.evidence.begin(), proven.evidence.begin(), proven.evidence.end());
  judged.places = proven.places;
  judged.first_seen = proven.first_seen;
  judged.last_seen = proven.last_seen;
  if (judged.discriminator.empty()) judged.discriminator = proven.discriminator;
  return judged;
}

// The exception of a worker of its loader, which the rank caught: it goes on.
const StartEvent* caught_by(const Run& run, const ProcessKey& rank) {
  for (const StartEvent* event : events_of(run, StartEventKind::kFailed)) {
    const ProcessInfo* worker = run.find_process(event->process);
    if (event->ended == Ended::kWorker && worker != nullptr && worker->ppid == rank.pid)
      return event;
  }
  return nullptr;
}

// It is through sooner for what it left out, not for a loader that is shorter.
void say_what_was_left_out(const Run& run, const RankState& rank, Finding& finding) {
  const StartEvent* caught = caught_by(run, rank.process);
  if (finding.code != FindingCode::kUnevenData || caught == nullptr) return;
  finding.message +=
      say("; it caught {} of {} and went on without that batch: one step fewer than "
          "the others",
          as_name(caught->type), describe(run, caught->process));
  add_exception(finding, *caught);
  finding.remedies = {
      {.title = "Let all ranks leave out that batch, or none: tell one another by a flag before "
                "each step, or mend the sample; else let the exception end the job",
       .commands = {"dist.all_reduce(is_good, op=dist.ReduceOp.MIN)  # on every rank, each step",
                    "if not is_good: continue"}}};
}

}  // namespace

std::vector<RootCause> find_late_ranks(const Facts& facts, const std::vector<RootCause>& known) {
  std::vector<RootCause> causes;
  for (Job& job : jobs_of(facts, known)) {
    std::ranges::move(look_at_loaders(facts, job), std::back_inserter(causes));
    for (auto& [finding, about] : judge_ranks(job.states)) {
      if (reads_a_stream(*facts.run))
        std::ranges::replace(finding.remedies, same_number_of_batches(), share_out_a_stream());
      say_what_was_left_out(*facts.run, job.states[about.front()], finding);
      const Rank& rank = job.ranks[about.front()];
      const size_t thread = thread_of(facts, rank);
      causes.push_back({with_proof(facts, std::move(finding), facts.threads[thread]), thread});
    }
  }
  return causes;
}

}  // namespace dlprobe::probes::deadlock
