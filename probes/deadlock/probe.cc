#include "probes/probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <set>
#include <tuple>
#include <utility>

#include "lib/base/units.h"
#include "probes/deadlock/facts.h"
#include "probes/deadlock/may_be_stuck.h"
#include "probes/deadlock/patience.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/all_well.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"
#include "probes/facts/seen.h"
#include "probes/facts/shared_handles.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::deadlock {
namespace {

template <class T>
void append(std::vector<T>& all, std::vector<T> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<RootCause> find_stuck(const Facts& facts) {
  std::vector<RootCause> causes = find_lost_holders(facts);
  append(causes, find_lost_pools(facts));
  append(causes, find_lost_peers(facts));
  append(causes, find_circles(facts, causes));
  append(causes, find_closed_groups(facts, causes));
  return causes;
}

// What stands beside a heartbeat. Of workers without a task that thread may be the one to give them
// some: then it takes long until that is worth a word, but where the trainer's own threads are what
// it waits for.
void weigh_with_bystander(const Facts& facts, size_t bystander, RootCause& cause) {
  const ThreadFacts& beat = facts.threads[bystander];
  Finding& finding = cause.finding;
  const ThreadFacts& end = facts.threads[way_within(facts, cause.thread).back()];
  const auto may_get_work = [&](const ThreadFacts& each) {
    return end.need.kind != NeedKind::kNotification && each.is_main() &&
           each.role() == Role::kWorker && each.doomed && each.need.relation != "read by" &&
           waits_for_task(facts, each);
  };
  const bool is_long = facts.last->at - facts.threads[cause.thread].since >= kLongRest;
  if (std::ranges::any_of(facts.threads, may_get_work))
    finding.severity = std::min(finding.severity, is_long ? Severity::kWarning : Severity::kInfo);
  finding.confidence = std::min(finding.confidence, Confidence::kLikely);
  finding.message += "; all the while " + words_of_wait(facts, beat);
}

// Where nobody is stuck otherwise, a heartbeat is taken to help nobody; `facts` then say so.
std::vector<RootCause> find_stuck_beside_beats(Facts& facts) {
  std::vector<size_t> bystanders = bystanders_of(facts);
  if (bystanders.empty()) return {};
  Facts without = facts;
  without.bystanders = std::move(bystanders);
  mark_doomed(without);
  std::vector<RootCause> causes = find_stuck(without);
  if (causes.empty()) return causes;
  for (RootCause& cause : causes)
    weigh_with_bystander(without, without.bystanders.front(), cause);
  facts = std::move(without);
  return causes;
}

// multiprocessing ends what is a daemon by SIGTERM when the trainer ends, and then waits for it: a
// handler that fork copied keeps it alive, whatever it does meanwhile.
void blame_handler_at_exit(const Facts& facts, RootCause& cause) {
  for (const ThreadFacts& waiter : facts.threads) {
    const bool is_at_exit = waiter.is_main() && waiter.role() == Role::kTrainer &&
                            waiter.need.kind == NeedKind::kChild &&
                            ends_its_children(*waiter.thread);
    if (!is_at_exit || waiter.need.providers.empty()) continue;
    const ThreadFacts& child = facts.threads[waiter.need.providers.front()];
    if (child.info == nullptr || !child.info->catches(SIGTERM).value_or(false)) continue;
    Finding& finding = cause.finding;
    finding.message =
        name_of(facts, waiter) + " is through, and waits in multiprocessing's exit for " +
        name_of(facts, child) +
        ", which has a handler for SIGTERM: a daemon does not end by it then; " + finding.message;
    finding.remedies.insert(
        finding.remedies.begin(),
        {.title = "Let children end by SIGTERM, or tell them to end before the trainer does",
         .commands = {"signal.signal(signal.SIGTERM, signal.SIG_DFL)  # in the child"},
         .verify = "dlprobe deadlock --pid PID"});
    return;
  }
}

std::vector<RootCause> find_causes(Facts& facts) {
  std::vector<RootCause> causes = find_stuck(facts);
  std::vector<RootCause> of_ranks = find_late_ranks(facts, causes);
  if (causes.empty() && of_ranks.empty()) causes = find_stuck_beside_beats(facts);
  // Who is late is worth a word only where nobody is stuck.
  if (causes.empty() && of_ranks.empty()) causes = find_slow_parts(facts);
  append(causes, std::move(of_ranks));
  for (RootCause& cause : causes) {
    blame_failed_task(facts, cause);
    blame_handler_at_exit(facts, cause);
    blame_failed_program(facts, cause);
  }
  std::ranges::stable_sort(causes, std::ranges::greater{}, [](const RootCause& cause) {
    const Finding& finding = cause.finding;
    return std::tuple(finding.severity, !finding.consequence_of, finding.confidence);
  });
  return causes;
}

// One finding for all that hang in the same way; the first of them says how many there are.
std::vector<Finding> merge(std::vector<RootCause>& causes) {
  std::vector<Finding> findings;
  for (RootCause& cause : causes) {
    const auto same = std::ranges::find_if(findings, [&](const Finding& each) {
      return each.code == cause.finding.code && each.severity == cause.finding.severity &&
             each.discriminator == cause.finding.discriminator;
    });
    if (same == findings.end()) {
      const auto alike = std::ranges::count_if(causes, [&](const RootCause& each) {
        return each.finding.code == cause.finding.code &&
               each.finding.discriminator == cause.finding.discriminator;
      });
      if (alike > 1) {
        cause.finding.message += say(" (the same in {} other {})", own(alike - 1),
                                     alike > 2 ? "processes or threads" : "process or thread");
      }
      findings.push_back(cause.finding);
      continue;
    }
    for (const ProcessKey& key : cause.finding.processes)
      if (std::ranges::find(same->processes, key) == same->processes.end())
        same->processes.push_back(key);
  }
  return findings;
}

// What is not known because the watch was too short.
std::optional<Gap> missing_history(const Facts& facts) {
  Gap gap{.what = "stacks and locks",
          .why = "no snapshot was taken",
          .effect = "dlprobe cannot tell whether anything hangs",
          .remedy = "watch longer: --for 5s"};
  if (facts.last == nullptr) return gap;
  if (facts.span >= kShortestLook) return std::nullopt;
  if (std::ranges::all_of(facts.threads, &ThreadFacts::still)) return std::nullopt;
  gap.what = "the progress of threads";
  gap.why = "one look cannot show it; use --for 3s";
  gap.effect = "dlprobe cannot tell whether threads that ran in the last second make progress";
  return gap;
}

// What the snapshots prove.
void judge(const RunCase& one, Facts& facts, Verdict& verdict) {
  const Run& run = one.run;
  const HostFacts& host = one.recording.header.host;
  std::vector<RootCause> causes = find_causes(facts);
  verdict.findings = merge(causes);
  if (std::vector<RootCause> slow; causes.empty() && !has_subject_ended(run)) {
    slow = find_slow_loaders(facts);
    append(verdict.findings, merge(slow));
  }
  append(verdict.findings, find_shared_handles(run, host.machine));
  // What has come to its end by itself did not hang.
  if (Message standstill = describe_standstill(facts, causes);
      !standstill.empty() && !has_subject_ended(run)) {
    verdict.all_well = std::move(standstill) + "; " + describe_looks(one.recording);
  }
  append(verdict.findings, find_risks(facts, causes, host.cpus));
  verdict.wait_graphs.push_back(make_wait_graph(facts, causes));
  verdict.ranks = rank_states(facts, causes, verdict.wait_graphs.back());
}

constexpr BootNs kBetweenLooks = 60 * kSecond;

/// That a trainer waited no longer for a batch, and the job ended with it.
struct GaveUp {
  ProcessKey trainer;
  Message words;  ///< "gave up: RuntimeError: DataLoader timed out"
  Evidence evidence;
};

GaveUp told_by(const StartEvent& event) {
  return {.trainer = event.process,
          .words = "gave up: " + as_text(event.message),
          .evidence = text_fact("exception", as_text(event.message), kShimSource, event.at)};
}

/// Of a trainer that waited for a batch: nobody told what it raised.
std::optional<GaveUp> shown_by_its_wait(const Facts& facts) {
  const auto patience = ended_patience(*facts.run, facts.machine);
  if (!patience) return std::nullopt;
  const size_t trainer = facts.find(patience->trainer, patience->trainer.pid);
  if (trainer == Facts::kNone || !waits_for_batch(facts, facts.threads[trainer]))
    return std::nullopt;
  const OwnWords timeout = format_duration(std::chrono::nanoseconds(patience->timeout));
  return GaveUp{
      .trainer = patience->trainer,
      .words = "exited with code " + own(patience->exit_code) +
               ", once it had waited as long as it may (" + timeout + ")",
      .evidence = text_fact("timeout", timeout, "/proc/PID/task/TID/syscall", facts.last->at)};
}

/// `soon`: who was the first to tell that it gave up, soon after the last look; null: nobody.
std::optional<GaveUp> gave_up_waiting(const Facts& facts, const StartEvent* soon) {
  if (soon == nullptr) return shown_by_its_wait(facts);
  return is_of_timeout(*soon) ? std::optional(told_by(*soon)) : std::nullopt;
}

/// What the worker did is why.
void make_error_of_timeout(const Run& run, const GaveUp& gave_up, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    const bool is_why = finding.code == FindingCode::kSlowSample ||
                        finding.code == FindingCode::kWorkerBusyNoProgress;
    if (!is_why) continue;
    finding.severity = Severity::kError;
    finding.message += "; then " + describe(run, gave_up.trainer) + " " + gave_up.words;
    finding.processes.push_back(gave_up.trainer);
    finding.remedies = {
        {.title = "Look at that line: should it take so long? If so, wait longer for it",
         .commands = {has_data_loader(run) ? "DataLoader(..., timeout=SECONDS)"
                                           : "get(timeout=SECONDS)"},
         .verify = "dlprobe run -- COMMAND"}};
    finding.prove(gave_up.evidence);
  }
}

/// The rank whose process group ended it soon after a look that met it where it waits for others.
const ProcessExit* aborted_waiting(const Run& run, BootNs last_look,
                                   const std::vector<RankState>& ranks) {
  const ProcessExit* aborted = aborted_rank(run, last_look);
  const bool is_soon = aborted != nullptr && aborted->at <= last_look + kBetweenLooks;
  if (!is_soon && (aborted == nullptr || !ended_group(run))) return nullptr;
  const auto state = std::ranges::find(ranks, aborted->key, &RankState::process);
  const bool waited = state != ranks.end() && state->meeting && state->meeting->stands;
  return waited ? aborted : nullptr;
}

/// Whether a process that the finding names failed by itself before the others gave up: they then
/// failed for that, however long they had waited.
bool failed_before(const Run& run, const Finding& finding, const StartEvent& gave_up) {
  const ProcessExit* end = run.find_exit(gave_up.process);
  return std::ranges::any_of(finding.processes, [&](const ProcessKey& key) {
    const ProcessExit* exit = run.find_exit(key);
    const bool has_told = std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
      return event.process == key && event.kind == StartEventKind::kFailed &&
             event.ended == Ended::kProcess && event.at < gave_up.at;
    });
    return has_told || (exit != nullptr && end != nullptr && exit->at < end->at);
  });
}

/// `gave_up`: null where no rank told it.
bool is_why_they_gave_up(const Run& run, const Finding& finding, const StartEvent* gave_up) {
  const bool is_behind = finding.code == FindingCode::kRankBehind;
  const bool is_why = is_behind || finding.code == FindingCode::kCollectiveMismatch ||
                      finding.code == FindingCode::kUnevenData ||
                      finding.code == FindingCode::kRankDead;
  const bool may_be_late = is_behind && gave_up != nullptr;
  return is_why && (!may_be_late || !failed_before(run, finding, *gave_up));
}

/// That the others waited no longer: with what, and that they might.
void add_who_gave_up(const Run& run, const StartEvent& gave_up, Finding& finding) {
  if (std::ranges::count(finding.processes, gave_up.process) == 0)
    finding.processes.push_back(gave_up.process);
  if (finding.code != FindingCode::kRankBehind || collective_of(gave_up).empty()) return;
  finding.message +=
      "; " + describe(run, gave_up.process) + " then gave up (" + as_name(gave_up.type) + ")";
  finding.prove(text_fact("exception", as_text(gave_up.message), kShimSource, gave_up.at));
  finding.advise("Or let the ranks wait for longer",
                 {"torch.distributed.init_process_group(..., timeout=timedelta(minutes=30))"});
}

/// Who waited gave up soon after the last look, and the job with it: what the rank behind did, and
/// what held it, is why.
void make_error_if_they_gave_up(const Facts& facts, Verdict& verdict) {
  const Run& run = *facts.run;
  const BootNs last_look = facts.last->at;
  const StartEvent* gave_up = first_to_give_up(run, last_look);
  if (gave_up != nullptr && gave_up->at > last_look + kBetweenLooks) gave_up = nullptr;
  if (const auto waited = gave_up_waiting(facts, gave_up))
    return make_error_of_timeout(run, *waited, verdict.findings);
  const ProcessExit* aborted = aborted_waiting(run, last_look, verdict.ranks);
  if (gave_up == nullptr && aborted == nullptr) return;
  std::set<FindingCode> causes;
  for (Finding& finding : verdict.findings) {
    if (!is_why_they_gave_up(run, finding, gave_up)) continue;
    finding.severity = Severity::kError;
    if (finding.consequence_of) causes.insert(*finding.consequence_of);
    if (gave_up != nullptr) add_who_gave_up(run, *gave_up, finding);
    if (aborted == nullptr) continue;
    finding.message += "; " + describe(run, aborted->key) + " then gave up (SIGABRT)";
    finding.processes.push_back(aborted->key);
  }
  for (Finding& finding : verdict.findings)
    if (causes.contains(finding.code)) finding.severity = Severity::kError;
}

Verdict examine_run(const RunCase& one) {
  const Run& run = one.run;
  const HostFacts& host = one.recording.header.host;
  Verdict verdict;
  Facts facts = facts_of(run, host);
  const bool never_started = run.end && run.end->reason == RunEndReason::kNotStarted;
  const bool ended = has_subject_ended(run);
  const bool moved_till_now = run.begin.looks_when_quiet && facts.last == nullptr;
  const bool nothing_to_see = run.begin.preflight || never_started || ended || moved_till_now;
  if (auto gap = missing_history(facts); gap && !nothing_to_see) {
    verdict.gaps.push_back(std::move(*gap));
  }
  if (facts.last != nullptr) {
    judge(one, facts, verdict);
    make_error_if_they_gave_up(facts, verdict);
  }
  for (RankState& rank : ended_ranks(run))
    if (std::ranges::count(verdict.ranks, rank.process, &RankState::process) == 0)
      verdict.ranks.push_back(std::move(rank));
  return verdict;
}

bool may_be_worse(const RootCause& cause) {
  return cause.finding.code != FindingCode::kSlowestRank;
}

constexpr std::array<Cause, 24> kCauses = {{
    {FindingCode::kForkInheritedLock, saw_progress},
    {FindingCode::kForkLostThreadPool, saw_progress},
    {FindingCode::kLockCycle, saw_progress},
    {FindingCode::kLockHolderDead, saw_progress},
    {FindingCode::kWaitsForMissingThread, saw_progress},
    {FindingCode::kPythonLockInherited, saw_progress},
    {FindingCode::kGilHeldWhileBlocked, saw_progress},
    {FindingCode::kPipeWithoutPeer, saw_progress},
    {FindingCode::kOrphanedWorker, saw_progress},
    {FindingCode::kIoStall, saw_progress},
    {FindingCode::kWorkerStopped, saw_progress},
    {FindingCode::kWorkerBusyNoProgress, saw_progress},
    {FindingCode::kSlowSample, saw_progress},
    {FindingCode::kConsumerStuck, saw_progress},
    {FindingCode::kTrainerBusyInLoader, saw_progress},
    {FindingCode::kRankBehind, saw_progress},
    {FindingCode::kCollectiveMismatch, saw_progress},
    {FindingCode::kUnevenData, saw_progress},
    {FindingCode::kRankDead, saw_progress},
    {FindingCode::kSlowestRank, saw_progress},
    {FindingCode::kBatchLostInWorker, saw_progress, ReportTable::kSharedMemory},
    {FindingCode::kHandleSharedOverFork, saw_shared_files, ReportTable::kOpenFiles},
    {FindingCode::kForkUnsafeLibraryLoaded, saw_stacks},
    {FindingCode::kTwoOpenMpRuntimes, saw_stacks},
}};

Message all_well(const RecordingView& recording) {
  return say("nothing {} stuck: {}", is_over(recording) ? "was" : "is", describe_looks(recording));
}

}  // namespace

bool may_be_stuck(const RecordingView& recording) {
  if (recording.runs.empty()) return false;
  Facts facts = facts_of(recording.runs.back(), recording.header.host);
  if (facts.last == nullptr) return false;
  const std::vector<RootCause> causes = find_causes(facts);
  const bool is_told = std::ranges::any_of(
      causes, [](const RootCause& cause) { return cause.finding.severity != Severity::kInfo; });
  if (is_told) return false;
  return std::ranges::any_of(causes, may_be_worse) || !describe_standstill(facts, causes).empty();
}

Message what_is_asked(const RecordingView& recording) {
  if (recording.runs.empty()) return {};
  const Facts facts = facts_of(recording.runs.back(), recording.header.host);
  const auto asks = std::ranges::find_if(facts.threads, asks_a_person);
  return asks == facts.threads.end() ? Message() : words_of_wait(facts, *asks);
}

const Probe kProbe = {.name = "deadlock",
                      .summary = "who waits for what, who holds it, and whether the wait can end",
                      .causes = kCauses,
                      .examine_run = examine_run,
                      .all_well = all_well,
                      .keeps_runs_apart = true,
                      .needs_snapshots = true};

}  // namespace dlprobe::probes::deadlock
