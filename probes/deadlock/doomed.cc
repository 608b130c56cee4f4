// Who of the threads that wait cannot go on.

#include <algorithm>

#include "probes/deadlock/facts.h"
#include "probes/deadlock/ranks.h"
#include "probes/deadlock/within.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

// Who only waits for new clients beside others of its process leaves it to them to answer those
// that it has: a server with a thread for each. One that asks now and then (socketserver's
// serve_forever()) does so where such a thread is known: it wants a lock.
bool only_lets_clients_in(const Facts& facts, const ThreadFacts& thread) {
  const bool waits =
      thread.need.kind == NeedKind::kNewClient && (thread.still || thread.polls_again);
  return waits && std::ranges::any_of(facts.threads, [&](const ThreadFacts& other) {
           const bool may_answer = thread.still ? other.need.kind != NeedKind::kNewClient
                                                : other.need.kind == NeedKind::kOwnedLock;
           return other.process == thread.process && may_answer && !other.is_main();
         });
}

// The server of a manager has a thread for each client, and its main thread answers none.
bool leaves_answers_to_others(const Facts& facts, const ThreadFacts& thread) {
  return serves_a_manager(*thread.thread) &&
         std::ranges::any_of(facts.threads, [&](const ThreadFacts& other) {
           return other.process == thread.process && answers_for_a_manager(*other.thread);
         });
}

// What threads of its process do while they are at work, or at each of their turns: run a task, put
// into a queue or take from it, release a semaphore, come to a barrier. What is set once may be set
// at any time.
bool is_for_who_works(const ThreadFacts& thread) {
  const ThreadSnapshot& waiter = *thread.thread;
  return thread.need.kind == NeedKind::kNotification &&
         (waits_for_future(waiter) || waits_for_permit(waiter) || waits_at_barrier(waiter) ||
          feeds_queue(waiter) || queue_wait(waiter) == QueueWait::kRoom);
}

bool is_passed_over(const Facts& facts, size_t index) {
  return std::ranges::binary_search(facts.bystanders, index);
}

// Whether a thread may yet answer on a socket that it has: it can go on, and by more than a new
// client of its process.
bool may_answer(const Facts& facts, const ThreadFacts& thread) {
  if (thread.doomed || only_lets_clients_in(facts, thread) ||
      leaves_answers_to_others(facts, thread))
    return false;
  const bool is_parked = thread.need.kind == NeedKind::kNotification && thread.still;
  return !is_parked || thread.need.others_may ||
         std::ranges::any_of(thread.need.providers, [&](size_t each) {
           const ThreadFacts& waker = facts.threads[each];
           const bool wakes_nobody = feeds_queue(*waker.thread) ||
                                     (is_for_who_works(thread) && is_passed_over(facts, each));
           return !waker.doomed && !wakes_nobody && !only_lets_clients_in(facts, waker);
         });
}

// A lock that it has itself: signals may wake it, and their handlers run, but it gets nowhere.
bool waits_for_itself(const ThreadFacts& thread) {
  return thread.looks.size() > 1 && lasts_long(thread, thread.looks.size()) &&
         std::ranges::all_of(thread.looks, [&](const Look& look) {
           const auto& futex = look.thread->futex;
           return futex && futex->owner_tid == thread.thread->tid &&
                  futex->address == futex_of(thread).address;
         });
}

// Beside the main thread, at one place in a sleep or a wait with a timeout at look after look: a
// heartbeat, a monitor.
bool is_bystander(const ThreadFacts& thread) {
  constexpr double kMostOfABeat = 0.05;  // of a core
  const bool is_of_job = thread.role() == Role::kTrainer || thread.role() == Role::kWorker;
  const bool is_timed = thread.thread->futex && thread.thread->futex->timed;
  const bool sleeps = thread.need.kind == NeedKind::kNothing && !thread.thread->wait.running;
  return is_of_job && !thread.is_main() && thread.same_stack && (is_timed || sleeps) &&
         core_share(thread, thread.looks.size()).run < kMostOfABeat;
}

// Where many could end the wait: the ends of a pipe, the users of a semaphore, a child's threads.
bool is_for_anybody(const ThreadFacts& thread) {
  return thread.need.kind == NeedKind::kChannel || thread.need.kind == NeedKind::kSharedCount ||
         thread.need.kind == NeedKind::kChild;
}

// Whether a provider who can do something saves one who needs him.
bool is_saved(const Facts& facts, const ThreadFacts& thread) {
  const bool is_for_all = is_for_anybody(thread) || is_for_who_works(thread);
  return std::ranges::any_of(thread.need.providers, [&](size_t provider) {
    const ThreadFacts& other = facts.threads[provider];
    if (is_for_all && is_passed_over(facts, provider)) return false;
    return thread.need.kind == NeedKind::kChannel ? may_answer(facts, other) : !other.doomed;
  });
}

}  // namespace

void mark_doomed(Facts& facts) {
  for (ThreadFacts& thread : facts.threads) {
    const bool stands = thread.still || thread.polls_again || waits_for_itself(thread);
    const bool waits = stands && thread.need.kind != NeedKind::kNothing;
    thread.doomed = waits && !thread.need.others_may;
  }
  // What is left when nobody more is saved cannot go on.
  for (bool changed = true; changed;) {
    changed = false;
    for (ThreadFacts& thread : facts.threads) {
      if (!thread.doomed || !is_saved(facts, thread)) continue;
      thread.doomed = false;
      changed = true;
    }
  }
}

std::vector<size_t> bystanders_of(const Facts& facts) {
  constexpr BootNs kLongWatch = 6 * kSecond;
  std::vector<size_t> bystanders;
  if (facts.span < kLongWatch) return bystanders;
  for (size_t i = 0; i < facts.threads.size(); ++i)
    if (is_bystander(facts.threads[i])) bystanders.push_back(i);
  return bystanders;
}

}  // namespace dlprobe::probes::deadlock
