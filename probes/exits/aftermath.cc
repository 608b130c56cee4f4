// What a process's end by a signal meant to others later.

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

/// Whether its trainer started others in its place, or at all.
bool started_others_after(const ExitFacts& facts, const Death& death) {
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  return trainer != nullptr && std::ranges::any_of(events_of(*facts.run, StartEventKind::kStarted),
                                                   [&](const StartEvent* start) {
                                                     return start->process == trainer->key &&
                                                            start->at > death.at();
                                                   });
}

/// Another child of its parent that had failed before; `by`: by that signal.
bool failed_after_another(const ExitFacts& facts, const Death& death, std::optional<int> by) {
  return std::ranges::any_of(facts.deaths, [&](const Death& other) {
    return &other != &death && other.process->ppid == death.process->ppid && other.failed() &&
           other.at() <= death.at() && (!by || other.signal == *by);
  });
}

Remedy give_up_without_a_worker() {
  return {.title =
              "Let the program give up when a worker dies: join(timeout) and exitcode, or an "
              "executor, which tells it",
          .verify = "dlprobe run -- COMMAND"};
}

}  // namespace

bool was_asked_as_manager(const ExitFacts& facts, const Death& death) {
  constexpr BootNs kSoon = 15 * kSecond;
  const auto failures = events_of(*facts.run, StartEventKind::kFailed);
  return std::ranges::any_of(failures, [&](const StartEvent* event) {
    const ProcessInfo* other = facts.run->find_process(event->process);
    const bool is_soon = event->at >= death.at() - kTogether && event->at <= death.at() + kSoon;
    return event->wanted == "manager" && is_soon && other != nullptr &&
           other->key != death.process->key &&
           (other->ppid == death.process->ppid || other->key.pid == death.process->ppid);
  });
}

bool is_before_hang(const ExitFacts& facts, const Death& death) {
  return was_ended_by_dlprobe(*facts.run) && death.signal == SIGKILL &&
         death.process->role == Role::kWorker && !started_others_after(facts, death);
}

bool is_witnessed(const Run& run, const ProcessKey& key) {
  return std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
    return event.kind == StartEventKind::kStarted && event.child_pid == key.pid;
  });
}

bool was_ended_from_above(const ExitFacts& facts, const Death& death) {
  if (death.signal != SIGKILL && death.signal != SIGTERM) return false;
  if (death.sent == nullptr) return failed_after_another(facts, death, std::nullopt);
  const ProcessInfo* sender = sender_in_tree(facts, *death.sent);
  return sender != nullptr && !is_from_kernel(*death.sent) &&
         is_above(facts, *sender, *death.process);
}

bool broke_the_job(const ExitFacts& facts, const Death& death) {
  constexpr BootNs kReaction = 15 * kSecond;
  const auto& ending = facts.ending;
  if (!ending || death.signal == 0 || was_ended_from_above(facts, death)) return false;
  const StartEvent& last = *ending->last;
  const bool is_child = death.process->ppid == last.process.pid && death.at() <= last.at &&
                        is_witnessed(*facts.run, death.process->key);
  if (!is_child || ending->first != &last || death.at() < last.at - kReaction) return false;
  return ending->is_broken() || failed_after_another(facts, death, death.signal);
}

bool was_survived(const ExitFacts& facts, const Death& death) {
  const auto& ending = facts.ending;
  if (!ending || !ending->last->again.empty()) return false;
  // A pool puts another one in its place at once, whatever its program says of it then.
  const bool is_why = is_crash_signal(death.signal) && death.at() >= ending->last->at - kJustBefore;
  return !is_why && started_others_after(facts, death);
}

void add_aftermath(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  if (was_asked_as_manager(facts, death)) {
    cause.confidence = Confidence::kLikely;
    cause.clause += "; others then asked it, as the server of a Manager, in vain";
    cause.remedies.insert(cause.remedies.begin(),
                          {.title = "Keep the process of the Manager until all who use it have "
                                    "ended; multiprocessing.active_children() has it, too",
                           .commands = {"manager.shutdown()  # after join() of the workers"},
                           .verify = "dlprobe run -- COMMAND"});
  }
  if (!is_before_hang(facts, death)) return;
  cause.clause += "; the job hung afterwards: a lock that it held, also of a Manager, stays locked";
  cause.remedies.insert(cause.remedies.begin(), give_up_without_a_worker());
}

void add_lost_results(const ExitFacts& facts, const std::vector<const Judged*>& group,
                      Finding& finding) {
  const bool is_lost = std::ranges::all_of(group, [&](const Judged* each) {
    const Death& death = *each->death;
    return death.signal != 0 && death.process->role == Role::kWorker &&
           trainer_ended_well(facts, death) && !started_others_after(facts, death);
  });
  if (!is_lost || finding.severity == Severity::kInfo) return;
  finding.message +=
      say("; {} ended with exit code 0 without {}, so results may be missing",
          describe(*facts.run, trainer_of(facts, *group.front()->death->process)->key),
          group.size() == 1 ? "it" : "them");
  finding.remedies.push_back(give_up_without_a_worker());
}

}  // namespace dlprobe::probes::exits
