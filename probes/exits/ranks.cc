// DLP0704 uneven-data, of a job that failed by it; ranks that left their job with an error.

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "lib/base/number_ranges.h"
#include "lib/base/units.h"
#include "lib/model/missing_ranks.h"
#include "lib/model/rank_state.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

constexpr std::string_view kMeeting = "init_process_group";
// A process closes its connections first, and takes its time to unload libraries.
constexpr BootNs kUnloads = 3 * kSecond;

// A process that the same one has started, for the same, and that was done before.
const Death* through_before(const ExitFacts& facts, const ProcessInfo& failed, BootNs at) {
  const auto found = std::ranges::find_if(facts.deaths, [&](const Death& death) {
    return death.process->ppid == failed.ppid && death.process->role == failed.role &&
           death.process->key != failed.key && death.signal == 0 && death.exit_code == 0 &&
           death.at() <= at;
  });
  return found == facts.deaths.end() ? nullptr : &*found;
}

// Null: it was not started by a launcher.
const ProcessInfo* launcher_of(const ExitFacts& facts, const ProcessInfo& rank) {
  const auto found = std::ranges::find_if(facts.run->processes, [&](const ProcessInfo& process) {
    return process.role == Role::kLauncher && process.key.pid == rank.ppid;
  });
  return found == facts.run->processes.end() ? nullptr : &*found;
}

// As far as its sender was to be seen.
bool was_ended_by(const ExitFacts& facts, const Death& death, const ProcessInfo& launcher) {
  if (death.signal != SIGTERM && death.signal != SIGKILL) return false;
  if (death.sent == nullptr) return true;
  const ProcessInfo* sender = sender_in_tree(facts, *death.sent);
  return sender != nullptr && sender->key == launcher.key;
}

// Those that the launcher ended once that rank had left, or up to `before` that; empty: another one
// failed otherwise.
std::vector<const Death*> ended_for(const ExitFacts& facts, const Death& left,
                                    const ProcessInfo& launcher, BootNs before = 0) {
  std::vector<const Death*> others;
  for (const Death& other : facts.deaths) {
    const bool is_sibling = other.process->ppid == launcher.key.pid && &other != &left;
    if (!is_sibling || !other.failed()) continue;
    const bool is_soon = other.at() >= left.at() - before && other.at() <= left.at() + kJustBefore;
    if (!is_soon || !was_ended_by(facts, other, launcher)) return {};
    others.push_back(&other);
  }
  return others;
}

// The one rank that failed by itself, for which its launcher ended the others. That of MPI does so
// before the rank ends that calls MPI_Abort.
bool has_ended_others(const ExitFacts& facts, const Death& death) {
  const ProcessInfo* launcher = launcher_of(facts, *death.process);
  return launcher != nullptr && death.exit_code != 0 && command_failed(*facts.run) &&
         !ended_for(facts, death, *launcher, kJustBefore).empty();
}

// What is the same of both: the rank that ended well, and that it did.
Finding of_rank_that_ended(const Run& run, const Death& through,
                           FindingCode code = FindingCode::kUnevenData) {
  Finding finding = new_finding(code, Confidence::kLikely);
  finding.discriminator = "ended";
  finding.message = say("{} ended with exit code 0", describe(run, through.process->key));
  finding.processes = {through.process->key};
  finding.prove(text_fact("victim", describe(run, through.process->key),
                          "wait status by " + own(through.exit->source), through.exit->at));
  finding.first_seen = through.at();
  return finding;
}

// All ranks of that job which the command has started. The children of a rank have its number.
std::vector<RankState> ranks_started(const Run& run, const JobRank& job) {
  std::vector<RankState> ranks;
  for (const ProcessInfo& process : run.processes) {
    const JobRank* rank = process.rank_of_several();
    if (rank != nullptr && rank->job == job.job && rank->world_size == job.world_size)
      ranks.push_back({.id = *rank, .process = process.key});
  }
  return ranks;
}

Remedy same_number_of_batches(const Run& run) {
  if (reads_a_stream(run)) return share_out_a_stream();
  return {
      .title = "Give every rank the same number of batches, and let no rank leave early",
      .commands = {"DistributedSampler(dataset, drop_last=True)", "DataLoader(..., drop_last=True)",
                   "torch.distributed.barrier()  # at the end, on every rank"}};
}

Remedy meet_first() {
  return {.title = "Let every rank come to where they meet, also one that has no data",
          .commands = {"torch.distributed.init_process_group(...)  # before anything that may end "
                       "the rank"},
          .verify = "dlprobe run -- COMMAND"};
}

}  // namespace

bool failed_to_meet(const Run& run, const StartEvent& failed) {
  const std::string operation = collective_of(failed);
  const bool is_meeting = operation == "init_process_group" || operation == "next_rendezvous" ||
                          operation == "_new_process_group_helper" || operation == "TCPStore";
  return is_meeting && std::ranges::none_of(run.start_events, [&](const StartEvent& event) {
           return event.kind == StartEventKind::kJoinedGroup && event.process == failed.process;
         });
}

bool is_rank_that_left(const ExitFacts& facts, const Death& death) {
  const auto& ending = facts.ending;
  if (!ending || death.signal != 0 || death.exit_code == 0 || death.process->role == Role::kWorker)
    return false;
  const BootNs raised_at = ending->last->at;
  if (death.at() > raised_at + kJustBefore || death.at() < raised_at - kJustBefore) return false;
  const bool has_said_why = std::ranges::any_of(facts.run->start_events, [&](const auto& event) {
    return event.process == death.process->key && event.kind == StartEventKind::kFailed;
  });
  const ProcessInfo* raiser = facts.run->find_process(ending->last->process);
  return !has_said_why && raiser != nullptr && raiser->key != death.process->key &&
         raiser->ppid == death.process->ppid && raiser->cmdline == death.process->cmdline;
}

bool failed_its_job(const ExitFacts& facts, const Death& death) {
  const auto& ending = facts.ending;
  if (!ending) return has_ended_others(facts, death);
  if (!collective_of(*ending->first).empty()) return is_rank_that_left(facts, death);
  const ProcessInfo* launcher = facts.run->find_process(ending->last->process);
  return ending->is_broken() && launcher != nullptr && launcher->role == Role::kLauncher &&
         launcher->key.pid == death.process->ppid && death.at() <= ending->last->at &&
         death.exit_code != 0;
}

std::vector<const StartEvent*> ranks_that_failed_after(const ExitFacts& facts, const Death& gone) {
  const Run& run = *facts.run;
  std::vector<const StartEvent*> failed;
  for (const StartEvent* event : events_of(run, StartEventKind::kFailed)) {
    const ProcessInfo* other = run.find_process(event->process);
    const bool is_sibling = other != nullptr && other->key != gone.process->key &&
                            other->ppid == gone.process->ppid &&
                            other->role == gone.process->role && other->seen_at <= gone.at();
    if (!is_sibling || event->at < gone.at() || collective_of(*event).empty()) continue;
    const auto is_its = [&](const StartEvent* each) { return each->process == other->key; };
    if (std::ranges::none_of(failed, is_its)) failed.push_back(event);
  }
  return failed;
}

void add_ranks_that_failed_after(const ExitFacts& facts, const Death& gone, Finding& finding) {
  const auto failed = ranks_that_failed_after(facts, gone);
  if (failed.empty()) return;
  const StartEvent& first = *failed.front();
  const Run& run = *facts.run;
  std::vector<ProcessKey> keys;
  keys.reserve(failed.size());
  for (const StartEvent* event : failed)
    keys.push_back(event->process);
  finding.message += say("; {} then failed in {}{}",
                         keys.size() == 1 ? describe(run, keys.front()) : describe_some(run, keys),
                         as_name(collective_of(first)), place_of(first));
  add_exception(finding, first);
}

std::optional<Finding> rank_that_was_through(const ExitFacts& facts) {
  const Run& run = *facts.run;
  for (const StartEvent* event : events_of(run, StartEventKind::kFailed)) {
    const std::string operation = collective_of(*event);
    const ProcessInfo* failed = operation.empty() ? nullptr : run.find_process(event->process);
    if (failed == nullptr) continue;
    const Death* through = through_before(facts, *failed, event->at + kUnloads);
    if (through == nullptr) continue;
    const bool had_met = !failed_to_meet(run, *event);
    Finding finding = of_rank_that_ended(
        run, *through, had_met ? FindingCode::kUnevenData : FindingCode::kRankDead);
    finding.message +=
        say("{} while {} waited for it in {}{}, which then failed",
            had_met ? "" : ", before it had met the others,", describe(run, failed->key),
            as_name(had_met ? operation : kMeeting), place_of(*event));
    finding.processes.push_back(failed->key);
    add_exception(finding, *event);
    finding.remedies.push_back(had_met ? same_number_of_batches(run) : meet_first());
    finding.last_seen = event->at;
    return finding;
  }
  return std::nullopt;
}

std::optional<Finding> rank_never_started(const ExitFacts& facts) {
  const Run& run = *facts.run;
  if (run.begin.subject != SubjectKind::kCommand || !command_failed(run)) return std::nullopt;
  std::vector<const StartEvent*> failed = events_of(run, StartEventKind::kFailed);
  std::erase_if(failed, [&](const StartEvent* event) { return !failed_to_meet(run, *event); });
  const ProcessInfo* first = failed.empty() ? nullptr : run.find_process(failed.front()->process);
  const JobRank* job = first == nullptr ? nullptr : first->rank_of_several();
  if (job == nullptr) return std::nullopt;
  const std::vector<RankState> started = ranks_started(run, *job);
  const MissingRanks missing = missing_ranks(started);
  if (missing.numbers.empty() || !missing.must_be_here) return std::nullopt;
  Finding finding = new_finding(FindingCode::kRankDead, Confidence::kLikely);
  finding.discriminator = "not started";
  std::vector<int64_t> waited;
  for (const StartEvent* event : failed) {
    const ProcessInfo* process = run.find_process(event->process);
    if (process == nullptr || !process->rank || process->rank->job != job->job) continue;
    waited.push_back(process->rank->rank);
    finding.processes.push_back(process->key);
  }
  const uint64_t size = static_cast<uint64_t>(job->world_size.value_or(0));
  const uint64_t absent = count_in(missing.numbers);
  finding.message =
      say("{} {} gave up in {}{}: the command started {} of the {} ranks, and no {} {}",
          waited.size() == 1 ? "rank" : "ranks", ranges_text(waited), as_name(kMeeting),
          place_of(*failed.front()), size - absent, size, absent == 1 ? "rank" : "ranks",
          ranges_text(missing.numbers));
  finding.prove(count_fact("missing_ranks", absent, "/proc/PID/environ"));
  add_exception(finding, *failed.front());
  finding.advise("Start as many ranks as WORLD_SIZE says; torchrun sets it to how many it starts",
                 {"torchrun --nproc-per-node N train.py"}, "dlprobe run -- COMMAND");
  finding.first_seen = failed.front()->at;
  finding.last_seen = failed.back()->at;
  return finding;
}

std::optional<Finding> rank_that_left_its_launcher(const ExitFacts& facts) {
  const Run& run = *facts.run;
  if (!command_failed(run)) return std::nullopt;
  for (const Death& left : facts.deaths) {
    const ProcessInfo* launcher = launcher_of(facts, *left.process);
    if (launcher == nullptr || left.failed()) continue;
    const std::vector<const Death*> others = ended_for(facts, left, *launcher);
    if (others.empty()) continue;
    Finding finding = of_rank_that_ended(run, left);
    const Death& first = *others.front();
    finding.message +=
        say(" while {} ran on; {} ({}) then ended {} by {}", describe(run, first.process->key),
            describe(run, launcher->key), as_name(launcher->comm),
            others.size() == 1 ? "it" : "the others", signal_name(first.signal));
    for (const Death* other : others)
      finding.processes.push_back(other->process->key);
    for (Evidence& each : signal_evidence(facts, first))
      finding.prove(std::move(each));
    finding.advise("Let no rank leave before the others, and none without MPI_Finalize",
                   {"sys.exit()  # not os._exit(), which does not finalize MPI",
                    "MPI.COMM_WORLD.Barrier()  # at the end, on every rank"},
                   "dlprobe run -- COMMAND");
    finding.last_seen = others.back()->at();
    return finding;
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::exits
