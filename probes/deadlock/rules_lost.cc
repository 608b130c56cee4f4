// DLP0106: a trainer waits for a result, and whoever could make it has no task.

#include <sys/wait.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/ranks.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

// The last worker of the trainer that failed while one of `idle`, which are of the same pool, was
// there, or before it took its place; null: none.
const ProcessExit* failed_before(const Facts& facts, const ThreadFacts& trainer,
                                 const std::set<size_t>& idle) {
  constexpr BootNs kUntilReplaced = 2 * kSecond;
  const auto is_it = [&](const ProcessExit& exit) {
    const ProcessInfo* process = facts.run->find_process(exit.key);
    const bool failed = exit.wait_status && *exit.wait_status != 0;
    return failed && exit.at <= facts.last->at && process != nullptr &&
           process->role == Role::kWorker && process->ppid == trainer.process->key.pid &&
           std::ranges::any_of(idle, [&](size_t each) {
             const auto* other = facts.run->find_process(facts.threads[each].process->key);
             return other != nullptr && other->seen_at <= exit.at + kUntilReplaced;
           });
  };
  const auto found = std::ranges::find_if(facts.run->exits | std::views::reverse, is_it);
  return found == facts.run->exits.rend() ? nullptr : &*found;
}

void add_failed_worker(const Facts& facts, const ProcessExit& failed, Finding& finding) {
  const int status = *failed.wait_status;
  const auto sent = std::ranges::find_if(facts.run->signals, [&](const SignalSent& each) {
    return each.target == failed.key && each.signal == WTERMSIG(status) && each.at <= failed.at;
  });
  Message how = describe(*facts.run, failed.key) +
                (WIFSIGNALED(status) ? " was killed by " + signal_name(WTERMSIG(status))
                                     : " exited with code " + own(WEXITSTATUS(status)));
  if (sent != facts.run->signals.end() && !is_from_kernel(*sent))
    how += ", which " + describe_sender({.run = facts.run}, *sent) + " sent";
  finding.message += ": " + how;
  finding.prove(text_fact("victim", how, "wait status by " + own(failed.source), failed.at));
}

// The trainer waits for results, the workers for work: what it waits for is not being made.
RootCause lost_work(const Facts& facts, size_t trainer, const std::set<size_t>& idle) {
  constexpr BootNs kLong = 6 * kSecond;
  const ThreadFacts& waiter = facts.threads[trainer];
  const BootNs stands = facts.last->at - waiter.since;
  Finding finding =
      finding_about(facts, FindingCode::kBatchLostInWorker,
                    stands >= kLong ? Confidence::kCertain : Confidence::kLikely, waiter);
  finding.message = name_of(facts, waiter) + " waits for a result, but " +
                    all_of(idle.size(), "process") + " that could make one " +
                    (idle.size() == 1 ? "waits" : "wait") +
                    " for work: a task or its result was lost";
  for (const size_t each : idle)
    finding.processes.push_back(facts.threads[each].process->key);
  const bool by_signal =
      may_be_woken_by_signal(waiter) || std::ranges::any_of(idle, [&](size_t each) {
        return may_be_woken_by_signal(facts.threads[each]);
      });
  if (by_signal) {
    finding.severity = Severity::kWarning;
    finding.confidence = Confidence::kPossible;
    finding.message += ", or a signal must bring it";
  }
  finding.prove(count_fact("idle_processes", idle.size(),
                           "/proc/PID/task/TID/syscall, /proc/PID/fd", facts.last->at));
  finding.rule_out("DLP0313", "no process ran, and none has work");
  if (const ProcessExit* failed = failed_before(facts, waiter, idle)) {
    add_failed_worker(facts, *failed, finding);
    if (waits_for_pool(*waiter.thread)) {
      finding.advise(
          "A multiprocessing.Pool starts another worker and never notices that the task of the "
          "first is gone: use an executor, which raises BrokenProcessPool, or imap with a timeout",
          {"concurrent.futures.ProcessPoolExecutor instead of multiprocessing.Pool",
           "results = pool.imap(f, items); results.next(timeout=600)"});
      return {std::move(finding), trainer};
    }
  }
  finding.advise(
      "Read the worker's standard error: it says why it died or dropped its batch. A "
      "timeout turns the next hang into an error",
      {"DataLoader(..., timeout=120)",
       "concurrent.futures.ProcessPoolExecutor instead of multiprocessing.Pool"});
  return {std::move(finding), trainer};
}

// An executor whose workers have ended, and that starts no new ones: its own thread waits at pipes
// that only its process could write to.
std::optional<RootCause> executor_without_workers(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  const auto manager = std::ranges::find_if(facts.threads, [&](const ThreadFacts& each) {
    return each.process == waiter.process && each.doomed && manages_an_executor(*each.thread);
  });
  if (manager == facts.threads.end() || !waits_for_future(*waiter.thread)) return std::nullopt;
  Finding finding =
      finding_about(facts, FindingCode::kBatchLostInWorker, Confidence::kLikely, waiter);
  finding.message = name_of(facts, waiter) + " waits for " + waiter.need.words +
                    ", but its ProcessPoolExecutor has no worker any more, and starts none";
  finding.advise(
      "An executor does not always replace workers that ended after max_tasks_per_child "
      "(CPython issue 115634): do without it, or use a pool",
      {"ProcessPoolExecutor(max_workers=N)", "multiprocessing.Pool(N, maxtasksperchild=M)"},
      "dlprobe deadlock --pid PID");
  return RootCause{std::move(finding), index};
}

// A Pool has handed out all its tasks: whatever gives it new ones, they bring no lost result.
bool are_all_tasks_given(const Facts& facts, const ThreadFacts& waiter) {
  bool is_pool = false;
  for (const ThreadFacts& each : facts.threads) {
    if (each.process != waiter.process || !hands_on_tasks(*each.thread)) continue;
    if (!each.still || user_frame(*each.thread) != nullptr) return false;
    is_pool = true;
  }
  return is_pool;
}

}  // namespace

std::set<size_t> idle_processes(const Facts& facts, const std::vector<bool>& explained,
                                bool of_pool) {
  std::set<size_t> idle;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (!thread.is_main() || thread.role() != Role::kWorker) continue;
    if (of_pool && serves_a_manager(*thread.thread)) continue;  // it makes no result
    if (!thread.doomed && !(of_pool && thread.still)) return {};
    if (explained[i] || !waits_for_task(facts, thread)) return {};
    idle.insert(i);
  }
  return idle;
}

std::optional<RootCause> lost_batch(const Facts& facts, size_t index,
                                    const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  const bool is_trainer = thread.is_main() && thread.role() == Role::kTrainer;
  const bool stands = thread.doomed || (thread.still && waits_for_pool(*thread.thread) &&
                                        are_all_tasks_given(facts, thread));
  if (!is_trainer || !stands || explained[index] || !waits_for_result(thread)) return std::nullopt;
  const auto idle = idle_processes(facts, explained, waits_for_pool(*thread.thread));
  if (!idle.empty()) return lost_work(facts, index, idle);
  if (std::ranges::find(facts.threads, Role::kWorker, &ThreadFacts::role) != facts.threads.end())
    return std::nullopt;
  return executor_without_workers(facts, index);
}

}  // namespace dlprobe::probes::deadlock
