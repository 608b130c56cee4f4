#include "probes/probe.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <utility>

#include "lib/base/units.h"
#include "lib/model/run_words.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/handled.h"
#include "probes/facts/seen.h"
#include "probes/facts/starts.h"
#include "probes/facts/vain_starts.h"

namespace dlprobe::probes::exits {
namespace {

// A trainer notices a worker's death within 5 s (MP_STATUS_CHECK_INTERVAL), and then cleans up.
constexpr BootNs kReactionTime = 15 * kSecond;
// A worker that is done before its siblings are, in an ordinary end of an epoch.
constexpr BootNs kOrdinarySpread = kSecond;
// From then on a trainer that gives up ends by itself; on a busy machine it takes its time.
constexpr BootNs kCleanUp = 3 * kSecond;
// PyTorch's trainer gives a worker 5 s to end by itself before it sends SIGTERM.
constexpr BootNs kBeforeTermination = 4 * kSecond;

/// The trainer's own end where it is a failure and came at or soon after `at`.
const Death* failure_of_trainer(const ExitFacts& facts, const Death& death) {
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  const Death* end = trainer == nullptr ? nullptr : death_of(facts, trainer->key);
  if (end == nullptr || !end->failed()) return nullptr;
  const bool soon = end->at() >= death.at() - kTogether && end->at() <= death.at() + kReactionTime;
  return soon ? end : nullptr;
}

/// A worker whose trainer was gone before: its end is no news.
bool outlived_trainer(const ExitFacts& facts, const Death& death) {
  if (death.process->role != Role::kWorker) return false;
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  const Death* end = trainer == nullptr ? nullptr : death_of(facts, trainer->key);
  if (end == nullptr) return false;
  const bool together =
      end->signal != 0 && end->signal == death.signal && death.at() <= end->at() + kTogether;
  return end->at() < death.at() && !together;
}

bool was_interrupted(const ExitFacts& facts) {
  return facts.run->end && facts.run->end->reason == RunEndReason::kInterrupted;
}

/// By whoever interrupted dlprobe, too.
bool is_of_interrupt(const ExitFacts& facts, const SignalSent& sent) {
  return was_interrupted(facts) && sent.signal == SIGINT && sender_in_tree(facts, sent) == nullptr;
}

/// Signals by which a job ends its own processes, and a user his job.
bool is_polite(int signal) {
  constexpr std::array kPolite = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  return std::ranges::find(kPolite, signal) != kPolite.end();
}

/// Of a worker ended by a signal whose sender could not be seen: a trainer ends its workers so, and
/// a failed one, too.
bool may_be_by_trainer(const ExitFacts& facts, const Death& death) {
  if (trainer_ended_well(facts, death)) return true;
  if (death.signal == SIGTERM && has_handlers_of_torch(*death.process)) return false;
  return is_polite(death.signal) && death.signal != SIGHUP;
}

bool was_terminated(const ExitFacts& facts, const ProcessKey& key, BootNs from, BootNs to) {
  return std::ranges::any_of(facts.run->signals, [&](const SignalSent& signal) {
    return signal.target == key && signal.signal == SIGTERM && signal.at >= from && signal.at <= to;
  });
}

/// Whether nobody of the job ended it. Who ends the others of a pool sends SIGTERM to the one that
/// left, too.
bool ended_by_itself(const ExitFacts& facts, const Death& death) {
  if (death.signal == 0) {
    return death.process->catches(SIGTERM) == false ||
           !was_terminated(facts, death.process->key, 0, death.exit->at);
  }
  const ProcessInfo* sender = death.sent == nullptr ? nullptr : sender_in_tree(facts, *death.sent);
  return !is_polite(death.signal) && (sender == nullptr || sender->key == death.process->key);
}

/// Whether another child of the same parent ended by itself: that may be seen after the signals
/// that the parent sent because of it. A code of 0 counts just then.
bool was_ended_for_another(const ExitFacts& facts, const Death& death) {
  return std::ranges::any_of(facts.deaths, [&](const Death& other) {
    const bool is_sibling = other.process->ppid == death.process->ppid &&
                            other.process->key != death.process->key &&
                            other.at() <= death.at() + kSecond;
    const bool counts = other.failed() || other.at() >= death.at() - kJustBefore;
    return is_sibling && counts && ended_by_itself(facts, other);
  });
}

/// Whether it is what failed first in a command that failed: by whoever is above it, and not in the
/// course of an end that had begun.
bool began_the_end(const ExitFacts& facts, const Death& death) {
  const auto first = std::ranges::find_if(facts.deaths, &Death::failed);
  const bool is_first = first != facts.deaths.end() && &*first == &death;
  if (!is_first || !command_failed(*facts.run)) return false;
  if (was_asked_as_manager(facts, death)) return true;
  // The end of another child may be seen after the signal that was sent because of it.
  const auto failures = events_of(*facts.run, StartEventKind::kFailed);
  const bool other_failed = std::ranges::any_of(failures, [&](const StartEvent* event) {
    return event->ended == Ended::kProcess && event->process != death.process->key &&
           event->at <= death.at();
  });
  if (other_failed || was_ended_for_another(facts, death)) return false;
  if (death.process->role == Role::kTrainer) return true;
  // A pool ends its own workers for whatever else it fails; of PyTorch's they ask to end.
  const auto& ending = facts.ending;
  const bool ends_it = death.signal == SIGKILL || death.signal == SIGTERM;
  return ending && ending->is_broken() && ends_it && death.at() <= ending->last->at;
}

/// Whoever ends its children does so by two signals; by another one only its own code.
bool is_end_by_those_above(const ExitFacts& facts, const Death& death) {
  const bool may_end_it = death.signal == SIGTERM || death.signal == SIGKILL;
  return !began_the_end(facts, death) &&
         (may_end_it || failure_of_trainer(facts, death) == nullptr);
}

/// By a process of the job, or the kernel.
bool is_ordinary_of_sender(const ExitFacts& facts, const Death& death) {
  const SignalSent& sent = *death.sent;
  const ProcessInfo* sender = sender_in_tree(facts, sent);
  if (sender == nullptr || is_from_kernel(sent)) return false;
  if (is_of_parents_thread(*death.process, sent))
    return failure_of_trainer(facts, death) == nullptr;
  if (is_above(facts, *sender, *death.process)) return is_end_by_those_above(facts, death);
  // By another one of the job, or itself: an accident only if the job did not go on.
  const bool hung = facts.then_stood_still || is_before_hang(facts, death);
  return death.process->role == Role::kWorker && failure_of_trainer(facts, death) == nullptr &&
         !hung;
}

/// Ended by a signal that belongs to normal work.
bool is_ordinary_signal(const ExitFacts& facts, const Death& death) {
  const SignalSent* sent = death.sent;
  if (sent != nullptr && sent->by_dlprobe) return true;
  if (library_that_ends_copies(facts, death) != nullptr) return false;
  // A launcher that is interrupted ends its ranks.
  const bool may_be_of_interrupt = sent == nullptr || sender_in_tree(facts, *sent) != nullptr;
  if (may_be_of_interrupt && was_interrupted(facts) && is_polite(death.signal)) return true;
  // Ctrl-C, and its like that asks for a core.
  const bool is_key = death.signal == SIGINT || death.signal == SIGQUIT;
  // Whoever has a handler for it raises it once more to end by it: shells, Python.
  const bool is_of_others =
      sent != nullptr && !is_from_kernel(*sent) && sent->sender_pid != death.process->key.pid;
  if (is_key && !is_of_others) return true;
  // Whoever reads what it writes has had enough, unless that is why the trainer failed.
  if (death.signal == SIGPIPE)
    return death.process->role != Role::kWorker || failure_of_trainer(facts, death) == nullptr;
  const bool is_worker = death.process->role == Role::kWorker;
  if (sent == nullptr && was_asked_as_manager(facts, death)) return !command_failed(*facts.run);
  if (sent == nullptr && is_worker) return may_be_by_trainer(facts, death);
  if (sent == nullptr) return is_polite(death.signal) && was_ended_for_another(facts, death);
  return is_of_interrupt(facts, *sent) || is_ordinary_of_sender(facts, death);
}

/// A worker that exits although its trainer goes on to wait for it: its siblings live until the
/// trainer fails, or are ended with it. In an ordinary end of an epoch all end at about the same
/// time, and one that does not is ended 5 s later.
bool left_early(const ExitFacts& facts, const Death& death) {
  const Death* failure = failure_of_trainer(facts, death);
  if (failure == nullptr) return false;
  if (was_terminated(facts, death.process->key, 0, death.exit->at)) return false;
  return std::ranges::any_of(facts.run->processes, [&](const ProcessInfo& sibling) {
    const bool is_sibling = sibling.role == Role::kWorker && sibling.key != death.process->key &&
                            sibling.ppid == death.process->ppid;
    if (!is_sibling || sibling.seen_at >= death.at()) return false;
    const bool lived_on = lives_at(facts, sibling, death.at() + kOrdinarySpread) &&
                          lives_at(facts, sibling, failure->at() - kCleanUp);
    return lived_on ||
           was_terminated(facts, sibling.key, death.at(), death.at() + kBeforeTermination);
  });
}

constexpr int kInterruptedExit = 130;  // 128 + SIGINT: what programs exit with after Ctrl-C

/// A child that was to run a program and could not: what shells and CPython's subprocess exit with.
bool failed_to_start(const ExitFacts& facts, const Death& death) {
  constexpr std::array kCodes = {126, 127, 255};
  const uint64_t rate = facts.header->host.ticks_per_second;
  if (std::ranges::find(kCodes, death.exit_code) == kCodes.end() || rate == 0) return false;
  const auto start =
      static_cast<BootNs>(death.process->key.start_ticks * (static_cast<uint64_t>(kSecond) / rate));
  return death.exit->at - start < kTogether * 3;
}

/// Whether the command then failed for want of somebody who had left.
bool was_missed(const ExitFacts& facts, const Death& death) {
  const auto& ending = facts.ending;
  if (!ending || ending->last->again.empty() || death.at() > ending->last->at) return false;
  const bool has_left = ending->first->kind == StartEventKind::kExits;
  return ending->first == ending->last ||
         (has_left && ending->first->process == death.process->key);
}

/// A trainer that called os._exit, as far as is known for nothing else that went wrong.
bool chose_to_leave(const ExitFacts& facts, const Death& death) {
  const bool is_for_another = facts.ending || caught_signal(facts, death) != nullptr ||
                              std::ranges::any_of(facts.deaths, [&](const Death& other) {
                                return other.failed() && other.at() <= death.at() &&
                                       other.process->key != death.process->key;
                              });
  return death.failed() && !is_for_another && !was_interrupted(facts) &&
         std::ranges::any_of(facts.run->start_events, [&](const StartEvent& event) {
           return event.kind == StartEventKind::kExits && event.process == death.process->key &&
                  event.message != kCallOfExit;
         });
}

bool is_ordinary_exit(const ExitFacts& facts, const Death& death) {
  if (ended_by_itself(facts, death) && failed_its_job(facts, death)) return false;
  // What a trainer exits with is its own business, and its own words say why. Whoever started it
  // may be about to start it again.
  if (death.process->role != Role::kWorker) {
    return !chose_to_leave(facts, death) ||
           (may_be_handled_child(*facts.run, death.process->key) && !facts.then_stood_still);
  }
  if (is_handled_child(*facts.run, death.process->key)) return true;
  if (failed_to_start(facts, death) || death.exit_code == kInterruptedExit) return true;
  if (left_task_of_pool(facts, death)) return false;
  const SignalSent* caught = caught_signal(facts, death);
  if (caught != nullptr && is_of_interrupt(facts, *caught)) return true;
  if (caught != nullptr && was_missed(facts, death)) return false;
  // A worker that is done is everyday business but for PyTorch's, where its trainer says so.
  const auto& ending = facts.ending;
  if (death.exit_code == 0 && ending && !ending->is_broken()) return true;
  return death.exit_code == 0 &&
         (!has_handlers_of_torch(*death.process) || !left_early(facts, death));
}

/// Whether it failed in asking a manager that its trainer had shut down, because of an exception of
/// its own: that comes first.
bool lost_manager_of_trainer(const ExitFacts& facts, const Death& death) {
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  if (!facts.ending || trainer == nullptr) return false;
  const StartEvent& raised = *facts.ending->first;
  const auto failures = events_of(*facts.run, StartEventKind::kFailed);
  return raised.process == trainer->key && raised.ended == Ended::kProcess &&
         raised.again.empty() && std::ranges::any_of(failures, [&](const StartEvent* event) {
           return event->process == death.process->key && event->wanted == "manager" &&
                  (raised.wanted == "shutdown" || raised.at <= event->at);
         });
}

/// Whether the process made the signal itself, as far as it was to be seen.
bool is_own_doing(const Death& death) {
  return death.sent == nullptr || is_own_fault(*death.sent) ||
         death.sent->sender_pid == death.process->key.pid;
}

std::optional<ExitCause> cause_of(const ExitFacts& facts, const Death& death) {
  if (auto oom = oom_cause(facts, death)) return oom;
  const bool matters = is_of_loader(facts, *death.process) || is_passed_on(facts, death) ||
                       broke_the_job(facts, death);
  if (!matters || outlived_trainer(facts, death)) return std::nullopt;
  if (death.signal == 0) {
    if (auto refused = refused_fork(facts, death)) return refused;
    if (is_ordinary_exit(facts, death) || lost_manager_of_trainer(facts, death))
      return std::nullopt;
    const SignalSent* caught = caught_signal(facts, death);
    return caught == nullptr ? exit_cause(facts, death) : caught_cause(facts, death, *caught);
  }
  if (death.signal == SIGBUS && is_own_doing(death)) return bus_error_cause(facts, death);
  if (is_crash_signal(death.signal) && is_own_doing(death)) return crash_cause(facts, death);
  if (is_ordinary_signal(facts, death)) return std::nullopt;
  ExitCause cause = kill_cause(facts, death);
  add_aftermath(facts, death, cause);
  return cause;
}

bool is_memory_finding(const Finding& finding) {
  const std::string_view code = info(finding.code).code;
  return code >= "DLP0504" && code <= "DLP0508";
}

/// Of the findings that name a process those of waiting threads do not say why it ended.
bool explains(const Finding& finding, int run, const ProcessKey& key) {
  if (!finding.runs.empty() && std::ranges::count(finding.runs, run) == 0) return false;
  if (is_memory_finding(finding) || info(finding.code).code.starts_with("DLP03")) return false;
  return finding.severity == Severity::kError && std::ranges::count(finding.processes, key) > 0;
}

std::vector<Judged> judge(const ExitFacts& facts, std::span<const Finding> known,
                          const Finding* refused, int run) {
  std::vector<Judged> judged;
  for (const Death& death : facts.deaths) {
    const ProcessKey& key = death.process->key;
    const bool was_refused = refused != nullptr && std::ranges::count(refused->processes, key) > 0;
    const bool explained = was_refused || std::ranges::any_of(known, [&](const Finding& finding) {
                             return explains(finding, run, key);
                           });
    if (explained || (!death.failed() && !is_of_loader(facts, *death.process))) continue;
    const bool may_be_of_that = death.signal == 0 && death.process->role != Role::kWorker;
    if (may_be_of_that && has_error(known)) continue;
    if (auto cause = cause_of(facts, death)) judged.push_back({&death, std::move(*cause)});
  }
  return judged;
}

Finding finding_of(const ExitFacts& facts, const std::vector<const Judged*>& group) {
  const Judged& first = *group.front();
  Finding finding = static_cast<const Finding&>(first.cause);
  finding.message = message_of(facts, group);
  finding.discriminator =
      std::string(to_string(first.death->process->role)) + "-" + first.cause.discriminator;
  finding.severity = Severity::kInfo;
  for (const Judged* each : group) {
    finding.processes.push_back(each->death->process->key);
    finding.severity = std::max(finding.severity, severity_of(facts, *each));
  }
  if (finding.code == FindingCode::kWorkerExited && finding.severity == Severity::kInfo)
    finding.remedies = {{.title = "Nothing if its parent reads that code; else raise an exception "
                                  "in the worker instead",
                         .verify = "dlprobe run -- COMMAND"}};
  for (const Judged* each : group) {
    finding.prove(text_fact("victim", describe(*facts.run, each->death->process->key),
                            "wait status by " + own(each->death->exit->source),
                            each->death->exit->at));
  }
  if (group.size() == 1) add_ranks_that_failed_after(facts, *first.death, finding);
  add_lost_results(facts, group, finding);
  finding.first_seen = first.death->at();
  finding.last_seen = group.back()->death->exit->at;
  return finding;
}

/// A memory finding of the same run is why the limit was reached; else the process that grew is.
void say_who_filled_memory(Finding& finding, const RunCase& one) {
  const bool is_oom = finding.code == FindingCode::kOomKilledByCgroup ||
                      finding.code == FindingCode::kOomKilledByHost;
  if (!is_oom) return;
  for (const Finding& each : one.known) {
    const bool same_run = each.runs.empty() || std::ranges::count(each.runs, one.index) > 0;
    if (same_run && is_memory_finding(each) && each.severity != Severity::kInfo) {
      finding.consequence_of = each.code;
      return;
    }
  }
  add_growth(finding, one.run);
}

/// Processes of the loader that ended nobody knows how.
void add_unknown_ends(const ExitFacts& facts, Verdict& verdict) {
  for (const ProcessExit& exit : facts.run->exits) {
    const ProcessInfo* process = facts.run->find_process(exit.key);
    if (process == nullptr || exit.wait_status || !is_of_loader(facts, *process)) continue;
    verdict.limits.push_back(
        {.what = "how " + describe(*facts.run, exit.key) + " ended",
         .why = as_text(to_string(exit.wait_status.error())),
         .effect = "dlprobe cannot tell whether it was killed, crashed or ended well",
         .remedy = "run dlprobe as the user of the job or as root"});
  }
}

/// A job that ran already failed, and nobody told why: not the same as that nothing is wrong.
std::optional<Gap> unseen_failure(const Run& run) {
  if (!ended_during_watch(run) || !run.begin.root) return std::nullopt;
  const ProcessExit* end = run.find_exit(*run.begin.root);
  if (end == nullptr || !end->wait_status || !WIFEXITED(*end->wait_status)) return std::nullopt;
  const int code = WEXITSTATUS(*end->wait_status);
  if (code == 0 || code == kInterruptedExit) return std::nullopt;
  return Gap{.what = "why the job exited with code " + own(code),
             .why = "it failed without a cause that shows from outside",
             .effect = "its own output may name it",
             .remedy = "dlprobe run -- COMMAND"};
}

bool is_likely_exit(const Finding& finding) {
  return finding.code == FindingCode::kWorkerExited && finding.severity == Severity::kError &&
         finding.confidence != Confidence::kCertain;
}

/// A child, or another rank, that failed just before: the exception may be about that. Where it
/// waited for others in vain, also who had ended well by then.
const Death* end_before(const ExitFacts& facts, const Finding& raised, bool waited_in_vain) {
  const BootNs raised_at = raised.last_seen.value_or(0);
  const Death* before = nullptr;
  const Death* well_before = nullptr;
  for (const Death& death : facts.deaths) {
    if (is_polite(death.signal) || was_ended_from_above(facts, death)) continue;
    if (std::ranges::count(raised.processes, death.process->key) > 0) continue;
    if (is_rank_that_left(facts, death)) return &death;
    const bool is_child = std::ranges::any_of(
        raised.processes, [&](const ProcessKey& key) { return death.process->ppid == key.pid; });
    if (!is_child || death.at() > raised_at) continue;
    const bool is_just_before = death.at() >= raised_at - kJustBefore;
    if (death.failed() && is_just_before) before = &death;
    const bool is_worker = death.process->role == Role::kWorker;
    if (!death.failed() && is_worker && waited_in_vain) well_before = &death;
  }
  return before != nullptr ? before : well_before;
}

void add_end_before(const ExitFacts& facts, Finding& raised) {
  const auto& ending = facts.ending;
  const Death* before = end_before(facts, raised, ending && ending->is_broken());
  if (before == nullptr) return;
  const Message how = before->signal != 0 ? "was killed by " + signal_name(before->signal)
                                          : "exited with code " + own(before->exit_code);
  const Message who =
      describe(*facts.run, before->process->key) + " (" + as_name(before->process->comm) + ") ";
  raised.message += "; just before, " + who + how;
  raised.prove(text_fact("victim", who + how, "wait status by " + own(before->exit->source),
                         before->exit->at));
  raised.processes.push_back(before->process->key);
  raised.confidence = Confidence::kLikely;
}

/// What else is wrong is why it was raised, but for a worker's end that the trainer may have lived
/// with.
void add_raised(const ExitFacts& facts, std::vector<Finding>& findings) {
  auto raised = uncaught_exception(*facts.run);
  if (!raised) return;
  const bool is_of_rank = std::ranges::any_of(facts.deaths, [&](const Death& death) {
    return ended_by_itself(facts, death) && failed_its_job(facts, death);
  });
  if (is_of_rank && has_error(findings)) return;
  const bool is_told = std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.code == raised->code &&
           std::ranges::count(finding.processes, raised->processes.front()) > 0;
  });
  if (is_told) return;
  add_end_before(facts, *raised);
  put_handler_first(facts, *raised);
  const auto errors = std::ranges::count(findings, Severity::kError, &Finding::severity);
  const bool is_open = errors == 1 && is_likely_exit(findings.front());
  if (is_open) raised->confidence = Confidence::kLikely;
  if (errors == 0 || is_open) findings.push_back(std::move(*raised));
}

/// What the others ended by is then of that.
void add_rank_that_was_through(const ExitFacts& facts, std::span<const Finding> known,
                               std::vector<Finding>& findings) {
  const bool is_known = std::ranges::count(known, FindingCode::kRankDead, &Finding::code) > 0;
  auto through = is_known ? std::nullopt : rank_never_started(facts);
  if (!through) through = rank_that_was_through(facts);
  if (!through) through = rank_that_left_its_launcher(facts);
  if (!through) return;
  for (Finding& finding : findings)
    if (finding.code == FindingCode::kWorkerExited) finding.consequence_of = through->code;
  findings.insert(findings.begin(), std::move(*through));
}

/// Deaths of one cause are one finding.
void add_causes(const RunCase& one, const ExitFacts& facts, const std::vector<Judged>& judged,
                Verdict& verdict) {
  std::vector<std::vector<const Judged*>> groups;
  std::map<std::string, size_t> group_of;
  for (const Judged& each : judged) {
    const std::string key = std::string(info(each.cause.code).code) + each.cause.together;
    const auto [place, is_new] = group_of.try_emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&each);
    if (each.cause.gap) verdict.gaps.push_back(*each.cause.gap);
  }
  const auto vain = vain_starts(one.run);
  for (const auto& group : groups) {
    Finding finding = finding_of(facts, group);
    if (vain) make_error_of_vain_starts(*facts.run, *vain, finding);
    say_who_filled_memory(finding, one);
    verdict.findings.push_back(std::move(finding));
  }
}

Verdict examine_run(const RunCase& one) {
  ExitFacts facts = exit_facts(one.recording.header, one.run);
  facts.then_stood_still = std::ranges::any_of(one.known, [](const Finding& finding) {
    return is_hang(finding) && finding.severity == Severity::kError;
  });
  Verdict verdict;
  auto refused = no_room_for_tasks(facts);
  const bool refused_room = refused.has_value();
  const bool has_cause = std::ranges::any_of(one.known, [](const Finding& finding) {
    return finding.severity == Severity::kError && !is_hang(finding);
  });
  if (!refused && !has_cause) refused = refused_resource(one.run);
  if (!refused) refused = failing_initializer(one.run);
  const bool has_not_met = !refused && (refused = failed_meeting(one.run)).has_value();
  const std::vector<Judged> judged =
      judge(facts, one.known, refused ? &*refused : nullptr, one.index);
  if (refused) verdict.findings.push_back(std::move(*refused));
  add_causes(one, facts, judged, verdict);
  if (!has_not_met) add_rank_that_was_through(facts, one.known, verdict.findings);
  // What waits because of an exception does not explain it.
  const bool is_explained = std::ranges::any_of(one.known, [](const Finding& finding) {
    return finding.severity == Severity::kError &&
           finding.consequence_of != FindingCode::kUncaughtException;
  });
  if (!is_explained && !has_not_met) add_raised(facts, verdict.findings);
  if (!refused_room) {
    if (auto growing = growing_tasks(facts)) verdict.findings.push_back(std::move(*growing));
  }
  if (auto lost = lost_part(one.run, one.known); lost && !has_error(verdict.findings))
    verdict.findings.push_back(std::move(*lost));
  add_unknown_ends(facts, verdict);
  if (auto gap = unseen_failure(one.run);
      gap && !has_error(one.known) && !has_error(verdict.findings))
    verdict.gaps.push_back(std::move(*gap));
  return verdict;
}

constexpr std::array<Cause, 16> kCauses = {{
    {FindingCode::kOomKilledByCgroup, saw_oom_killer, ReportTable::kMemory},
    {FindingCode::kOomKilledByHost, saw_oom_killer, ReportTable::kMemory},
    {FindingCode::kKilledBySignal, saw_ends},
    {FindingCode::kWorkerCrashed, saw_ends},
    {FindingCode::kWorkerExited, saw_ends},
    {FindingCode::kSessionHangup, saw_ends},
    {FindingCode::kBusErrorOnFileMapping, saw_ends},
    {FindingCode::kForkRefusedByOvercommit, saw_overcommit, ReportTable::kMemory},
    {FindingCode::kUncaughtException, saw_interpreters},
    {FindingCode::kStateNotInherited, saw_interpreters},
    {FindingCode::kCollectiveMismatch, saw_interpreters},
    {FindingCode::kUnevenData, saw_interpreters},
    {FindingCode::kRankDead, saw_interpreters},
    {FindingCode::kProcessLimitReached, saw_interpreters},
    {FindingCode::kTemporaryFolderUnusable, saw_interpreters},
    {FindingCode::kMemoryLimitTooLow, saw_interpreters, ReportTable::kMemory},
}};

}  // namespace

// Why processes of the tree ended, from their exit statuses, the signals that were sent, the
// kernel's log and the counters of OOM kills. Deaths that a known finding explains, by naming the
// process, are left out. Silent on what belongs to normal work: exit code 0, workers that their own
// job ended, children that are no part of the loader, Ctrl-C, what dlprobe ended itself.
const Probe kProbe = {.name = "exits",
                      .summary = "why processes ended: OOM killer, signals, crashes, exits",
                      .causes = kCauses,
                      .examine_run = examine_run,
                      .use = ProbeUse::kEnds,
                      .keeps_runs_apart = true};

}  // namespace dlprobe::probes::exits
