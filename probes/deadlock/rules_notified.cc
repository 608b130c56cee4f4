// Who waits to be woken by another thread of its process that cannot do so any more: DLP0303,
// DLP0305.

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

// asyncio.Queue.join(), in a task of its event loop.
bool joins_queue(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.tasks, [](const WaitingTasks& each) {
    return std::ranges::any_of(each.stack, [](const StackFrame& frame) {
      return is_of_standard_library(frame.file, "asyncio/queues.py") &&
             frame.function.ends_with("join");
    });
  });
}

// In whose thread its event loop runs: nothing that it waits for there can be done by that loop.
bool is_in_event_loop(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return is_of_standard_library(frame.file, "asyncio/base_events.py");
  });
}

// For a result of a task, or at a queue.Queue.
bool waits_in_own_loop(const ThreadSnapshot& thread) {
  return is_in_event_loop(thread) &&
         (waits_for_future(thread) || queue_wait(thread) != QueueWait::kNone);
}

Remedy remedy_for_tasks(const ThreadFacts& waiter) {
  const auto remedy = [](Message title, std::vector<Message> commands) {
    return Remedy{.title = std::move(title),
                  .commands = std::move(commands),
                  .verify = "dlprobe deadlock --pid PID"};
  };
  const ThreadSnapshot& thread = *waiter.thread;
  if (is_at_end_of_program(thread)) return remedy_at_end_of_program();
  if (waits_in_own_loop(thread))
    return remedy(
        "Do not wait for a result in the thread of the event loop: await it, or call what "
        "waits in another thread",
        {waits_for_future(thread) ? "await asyncio.wrap_future(future)"
                                  : "await queue.get()  # of an asyncio.Queue",
         "await asyncio.to_thread(function)"});
  if (joins_queue(thread))
    return remedy(
        "Let who takes an item say that it is done, also before continue and after an "
        "error: queue.join() waits for each",
        {"try: ... finally: queue.task_done()"});
  if (waits_for_permit(thread))
    return remedy(
        "Release it on every way, also before return, continue and after an error: with "
        "semaphore:",
        {"semaphore.acquire(timeout=60)"});
  if (queue_wait(thread) != QueueWait::kNone)
    return remedy(
        "Who takes from a queue must not wait for room in one that leads back to it: make "
        "one of them unbounded, or put a last item where its reader is to end",
        {"queue.Queue()", "queue.put(None)"});
  return remedy(
      "Find out who should wake it: a task must not wait for a task queued behind it in "
      "the same executor, nor an event loop for an event that nothing sets",
      {"future.result(timeout=60)", "asyncio.wait_for(future, 60)"});
}

// Whether the one that would wake it may be of its parent's, which fork did not copy: neither is it
// at work on a task of the user's here, nor had the parent but one that runs Python by then.
bool may_have_lost_a_thread(const Facts& facts, const ThreadFacts& waiter) {
  const bool is_here = std::ranges::any_of(waiter.need.providers, [&](size_t each) {
    const ThreadFacts& waker = facts.threads[each];
    return &waker != &waiter && user_frame(*waker.thread) != nullptr;
  });
  const bool is_parent_seen = parent_of(facts, waiter.process->key) != nullptr;
  return !is_here && (!is_parent_seen || had_other_threads(facts, waiter.process->key));
}

}  // namespace

// A worker that waits for a notification of threads that it does not have, or that wait
// themselves. Bad for all only if the trainer needs it.
std::optional<RootCause> lost_notifier(const Facts& facts, size_t index,
                                       const std::vector<bool>& explained) {
  const ThreadFacts& waiter = facts.threads[index];
  if (!waiter.is_main() || waiter.role() != Role::kWorker || !waiter.doomed || explained[index] ||
      (waiter.need.kind != NeedKind::kNotification && waiter.need.kind != NeedKind::kJoin)) {
    return std::nullopt;
  }
  // No thread that fork did not copy knows the event loop that the worker has made.
  const bool is_lost = waiter.thread->futex && is_forked_copy(*facts.run, waiter.process->key) &&
                       may_have_lost_a_thread(facts, waiter);
  Finding finding =
      finding_about(facts, is_lost ? FindingCode::kWaitsForMissingThread : FindingCode::kLockCycle,
                    Confidence::kLikely, waiter);
  // Nobody may need it, or a signal may wake it.
  if (!trainer_waits_for_result(facts) && !is_waited_for(facts, index))
    finding.severity = Severity::kInfo;
  if (!is_lost) {
    const bool is_alone = std::ranges::count_if(waiter.process->threads, [](const auto& each) {
                            return python_frame(each) != nullptr && !feeds_queue(each);
                          }) <= 1;
    finding.message = name_of(facts, waiter) + " waits for " + waiter.need.words +
                      words_of_more_tasks(*waiter.thread) +
                      (is_alone ? ", and no thread is left in its process that could wake it"
                                : ", and every thread of its process that could wake it is "
                                  "waiting too");
    const auto way = way_within(facts, index);
    finding.message += words_of_way(facts, way) + words_of_end(facts, way);
    finding.remedies.push_back(remedy_for_tasks(waiter));
    return RootCause{std::move(finding), index};
  }
  const bool finalizes = is_in_finalizer(*waiter.thread);
  finding.message = name_of(facts, waiter) + " waits for " + waiter.need.words +
                    (finalizes ? " in a finalizer" : "") +
                    "; the thread that would do it was lost at fork";
  finding.prove(
      count_fact("threads_here", waiter.process->threads.size(), "/proc/PID/task", facts.last->at));
  finding.rule_out("idle", "a worker without work waits for its queue of tasks");
  if (finalizes)
    finding.advise(
        "Close what the trainer has done with, and collect its garbage, before the workers start: "
        "a worker inherits what is left, and its own collection runs such finalizers",
        {"gc.collect()  # in the trainer, before the workers start",
         "if os.getpid() != self.pid: return  # first in the finalizer"});
  else
    finding.advise(
        "Create what has that thread (an executor, a writer, a client) in the worker, after "
        "the fork: what has threads mostly cannot be pickled",
        {"DataLoader(..., worker_init_fn=start_threads)", "Pool(..., initializer=start_threads)"},
        "dlprobe deadlock --pid PID");
  add_remedies_for_fork(finding, facts, waiter);
  return RootCause{std::move(finding), index};
}

std::optional<RootCause> unwoken_loop(const Facts& facts, size_t index,
                                      const std::vector<bool>& explained) {
  constexpr BootNs kNoChance = 2 * kSecond;
  const ThreadFacts& loop = facts.threads[index];
  const auto& tasks = loop.thread->tasks;
  const auto answered = std::ranges::find_if(tasks, &WaitingTasks::is_answered);
  if (explained[index] || !loop.still || answered == tasks.end()) return std::nullopt;
  // The one that sets it may be about to wake the loop.
  const auto earlier = std::ranges::find_if(loop.looks, [&](const Look& look) {
    return look.at >= loop.since && look.at <= facts.last->at - kNoChance &&
           std::ranges::any_of(look.thread->tasks, &WaitingTasks::is_answered);
  });
  if (earlier == loop.looks.end()) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kCertain, loop);
  finding.message = name_of(facts, loop) +
                    " sleeps in its event loop (asyncio), although what a task awaits there is "
                    "done" +
                    place_of(user_frame(answered->stack)) +
                    ": another thread has set it, which does not wake the loop";
  const bool wakes_later = has_timeout(loop.thread->wait, facts.machine);
  finding.severity = wakes_later ? Severity::kWarning : Severity::kError;
  if (wakes_later) finding.message += " before its next timer";
  finding.prove(text_fact("awaited", "done", "_state of the asyncio.Future", facts.last->at));
  finding.advise("Set it in the thread of its loop",
                 {"loop.call_soon_threadsafe(future.set_result, value)",
                  "loop.call_soon_threadsafe(queue.put_nowait, item)  # of an asyncio.Queue"},
                 "dlprobe deadlock --pid PID");
  return RootCause{std::move(finding), index};
}

// A trainer that waits for the result of a task of its own threads', which waits for another of
// them; or, maybe at a queue, in its event loop's own thread, while nobody else is at work.
std::optional<RootCause> task_behind_task(const Facts& facts, size_t index,
                                          const std::vector<bool>& explained) {
  const ThreadFacts& waiter = facts.threads[index];
  const bool is_own = waits_in_own_loop(*waiter.thread);
  const bool is_it = waiter.role() == Role::kTrainer && waiter.doomed && !explained[index] &&
                     (is_own || waits_for_future(*waiter.thread));
  if (!is_it) return std::nullopt;
  const auto way = way_within(facts, index);
  const ThreadFacts& end = facts.threads[way.back()];
  const bool is_own_loop = way.size() == 1 && is_own;
  const bool is_behind = way.size() > 1 && end.doomed && waits_for_future(*end.thread);
  if (!is_own_loop && !is_behind) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kLockCycle, Confidence::kLikely, waiter);
  finding.message = name_of(facts, waiter) + " waits for " + waiter.need.words +
                    words_of_way(facts, way) +
                    (is_own_loop ? ", in the thread of its event loop, which can do nothing for it "
                                   "meanwhile"
                                 : "; no thread is left to do that task");
  finding.remedies.push_back(remedy_for_tasks(waiter));
  return RootCause{std::move(finding), index};
}

}  // namespace dlprobe::probes::deadlock
