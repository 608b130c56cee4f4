#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "lib/model/run_words.h"
#include "probes/exits/rules.h"
#include "probes/facts/handled.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

/// Whether its executor lost tasks by it, for whose results nobody asked.
bool lost_unasked_results(const ExitFacts& facts, const Death& death) {
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  return trainer != nullptr &&
         std::ranges::any_of(
             events_of(*facts.run, StartEventKind::kResultLost), [&](const StartEvent* lost) {
               return lost->process == trainer->key && lost->type == "BrokenProcessPool";
             });
}

/// By SIGTERM, as a pool asks a worker whose task takes too long.
bool was_asked_by_parent(const ExitFacts& facts, const Death& death) {
  const SignalSent* caught = caught_signal(facts, death);
  return caught != nullptr && caught->signal == SIGTERM &&
         caught->sender_pid == death.process->ppid &&
         !is_of_parents_thread(*death.process, *caught);
}

/// By another child of its trainer's.
bool was_followed(const ExitFacts& facts, const Death& death) {
  return std::ranges::any_of(facts.run->processes, [&](const ProcessInfo& other) {
    return other.role == Role::kWorker && other.ppid == death.process->ppid &&
           other.seen_at > death.at();
  });
}

/// As PyTorch's workers of its trainer do, and others follow: a trainer does not go on with a
/// loader one of whose workers left early. Of a brief one itself the handlers may not have been
/// seen.
bool ends_so_each_time(const ExitFacts& facts, const Death& death) {
  return std::ranges::any_of(facts.deaths, [&](const Death& other) {
    return other.process->ppid == death.process->ppid && other.signal == 0 &&
           other.exit_code == death.exit_code && has_handlers_of_torch(*other.process) &&
           was_followed(facts, other);
  });
}

// Of a worker whose trainer then ended well.
Severity severity_beside_success(const ExitFacts& facts, const Judged& judged) {
  const Death& death = *judged.death;
  const bool may_answer_so = judged.cause.code == FindingCode::kWorkerExited &&
                             !lost_unasked_results(facts, death) &&
                             !left_task_of_pool(facts, death);
  return may_answer_so || was_asked_by_parent(facts, death) ? Severity::kInfo : Severity::kWarning;
}

}  // namespace

bool left_task_of_pool(const ExitFacts& facts, const Death& death) {
  return death.signal == 0 &&
         std::ranges::any_of(facts.run->start_events, [&](const StartEvent& event) {
           return event.kind == StartEventKind::kExits && event.wanted == "pool" &&
                  event.process == death.process->key;
         });
}

bool is_passed_on(const ExitFacts& facts, const Death& death) {
  constexpr int kShellsOffset = 128;
  const ProcessExit* end = end_of_command(*facts.run);
  return death.signal != 0 && end != nullptr && end->wait_status && WIFEXITED(*end->wait_status) &&
         WEXITSTATUS(*end->wait_status) == kShellsOffset + death.signal && facts.run->begin.root &&
         death.process->ppid == facts.run->begin.root->pid;
}

bool trainer_ended_well(const ExitFacts& facts, const Death& death) {
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  const Death* end = trainer == nullptr ? nullptr : death_of(facts, trainer->key);
  return end != nullptr && !end->failed();
}

bool is_crash_signal(int signal) {
  constexpr std::array kCrashes = {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  return std::ranges::find(kCrashes, signal) != kCrashes.end();
}

Severity severity_of(const ExitFacts& facts, const Judged& judged) {
  const Death& death = *judged.death;
  if (is_passed_on(facts, death) || broke_the_job(facts, death)) return Severity::kError;
  if (is_crash_signal(death.signal) && is_handled_child(*facts.run, death.process->key) &&
      ranks_that_failed_after(facts, death).empty())
    return Severity::kInfo;
  if (is_crash_signal(death.signal) && may_be_handled_child(*facts.run, death.process->key) &&
      !facts.then_stood_still)
    return Severity::kWarning;
  if (!is_of_loader(facts, *death.process)) return Severity::kWarning;
  if (was_survived(facts, death)) return Severity::kWarning;
  if (death.process->role != Role::kWorker) return Severity::kError;
  if (trainer_ended_well(facts, death)) return severity_beside_success(facts, judged);
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  const bool has_exited = judged.cause.code == FindingCode::kWorkerExited;
  const bool goes_on = trainer != nullptr && death_of(facts, trainer->key) == nullptr;
  if (goes_on && has_exited && ends_so_each_time(facts, death)) return Severity::kInfo;
  // As far as is known the trainer may have wanted it so.
  const bool may_be_wanted = has_exited || (death.signal != 0 && death.sent == nullptr);
  return goes_on && may_be_wanted ? Severity::kWarning : Severity::kError;
}

}  // namespace dlprobe::probes::exits
