#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "lib/model/run_words.h"
#include "probes/deadlock/ranks.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

// A wait for something that one holder keeps: what a circle of locks is made of.
bool is_hold(const ThreadFacts& thread) {
  return thread.need.has_one_holder() ||
         (thread.need.kind == NeedKind::kChannel && thread.need.relation == "read by");
}

// A hold that no idle pool has: whoever is idle keeps the lock of its queue, but no file's lock,
// and does not leave a pipe full.
bool is_hold_of_work(const Facts& facts, const ThreadFacts& thread) {
  if (thread.need.kind == NeedKind::kSharedLock) {
    // A lock around a queue, be it the user's own: its holder waits for a task. No trainer is idle.
    if (waits_for_task(facts, thread) || waits_for_result(thread)) return false;
    return thread.role() == Role::kTrainer ||
           std::ranges::none_of(thread.need.providers, [&](size_t each) {
             return waits_for_task(facts, facts.threads[each]);
           });
  }
  return thread.need.kind == NeedKind::kFileLock ||
         (thread.need.kind == NeedKind::kChannel && thread.need.relation == "read by");
}

// In a circle with such a hold a wait for data is a link, too: the one who would write is in it.
bool is_link(const ThreadFacts& thread) {
  return is_hold(thread) || thread.need.kind == NeedKind::kChannel ||
         thread.need.kind == NeedKind::kNotification;
}

// The shortest way from a thread back to itself along such waits; empty if there is none. `across`:
// data are of another process.
template <class IsLink>
std::vector<size_t> circle_from(const Facts& facts, size_t start, IsLink is_part,
                                bool across = false) {
  std::map<size_t, size_t> came_from;
  std::deque<size_t> queue = {start};
  while (!queue.empty()) {
    const size_t at = queue.front();
    queue.pop_front();
    const ThreadFacts& waiter = facts.threads[at];
    for (const size_t next : waiter.need.providers) {
      const bool is_within = facts.threads[next].process == waiter.process;
      if (across && is_within && waits_for_data(waiter)) continue;
      if (next == start) {
        std::vector<size_t> circle = {at};
        while (circle.back() != start)
          circle.push_back(came_from.at(circle.back()));
        std::ranges::reverse(circle);
        return circle;
      }
      if (facts.threads[next].doomed && is_part(facts.threads[next]) &&
          came_from.emplace(next, at).second)
        queue.push_back(next);
    }
  }
  return {};
}

constexpr const char* kTakenTwice =
    "Do not take it twice, or make it an RLock, and always release it: with lock:";

// Whether it may have run into its own lock by a handler of a signal.
bool may_be_of_handler(const ThreadFacts& thread) {
  const bool is_known = thread.info != nullptr && thread.info->signals_caught.has_value();
  return thread.woke || (thread.is_main() && is_known && may_be_woken_by_signal(thread));
}

OwnWords advice_for_circle(const Facts& facts, const std::vector<size_t>& circle) {
  if (std::ranges::all_of(circle, [&](size_t each) { return waits_for_data(facts.threads[each]); }))
    return "Flush what one writes and the other waits for: print(..., flush=True), python -u, "
           "stdbuf -oL; or end its input: process.communicate()";
  const bool imports = std::ranges::any_of(
      circle, [&](size_t each) { return waits_for_import(*facts.threads[each].thread); });
  if (imports)
    return "Do not wait for a thread or a pool while a module is imported: start it in a function "
           "that is called after the import";
  const ThreadFacts& first = facts.threads[circle.front()];
  if (circle.size() == 1 && may_be_of_handler(first))
    return "A handler of a signal must not take a lock that the code it interrupts may have: set a "
           "flag in it, and take the lock later";
  if (circle.size() == 1 && first.need.kind == NeedKind::kFileLock)
    return "A lock of a file counts for each open(): release it before the same process takes it "
           "by another one";
  if (circle.size() == 1) return kTakenTwice;
  const auto is_lock_with_copies = [&](size_t each) {
    const Need& need = facts.threads[each].need;
    return need.kind == NeedKind::kFileLock && !need.savers.empty();
  };
  const auto has = [&](NeedKind kind) {
    return std::ranges::any_of(circle,
                               [&](size_t each) { return facts.threads[each].need.kind == kind; });
  };
  if (has(NeedKind::kChannel) && has(NeedKind::kFileLock))
    return std::ranges::any_of(circle, is_lock_with_copies)
               ? "Release the lock (fcntl.LOCK_UN) before you wait for a process that wants it, or "
                 "do not take it there: closing the file leaves it to the copies that fork made"
               : "Release the lock (of a database: commit) before you wait for a process that "
                 "wants it, or do not take it there";
  if (has(NeedKind::kChannel))
    return "Empty a Queue or a pipe (process.communicate()) before you wait for the process that "
           "fills it";
  if (has(NeedKind::kNotification) || has(NeedKind::kJoin))
    return "Release the lock before you wait for another thread that needs it";
  return "Take the locks in the same order everywhere";
}

RootCause lock_circle(const Facts& facts, const std::vector<size_t>& circle) {
  const ThreadFacts& first = facts.threads[circle.front()];
  Finding finding = finding_about(facts, FindingCode::kLockCycle, Confidence::kCertain, first);
  finding.processes.clear();
  for (const size_t each : circle) {
    const ThreadFacts& thread = facts.threads[each];
    finding.message += (finding.message.empty() ? "" : "; ") + name_of(facts, thread) +
                       " waits for " + thread.need.words;
    // Of locks the chain of waits has the places.
    const bool is_woken =
        thread.need.kind == NeedKind::kNotification || thread.need.kind == NeedKind::kJoin;
    if (is_woken && each != circle.front()) finding.message += place_of(thread);
    if (std::ranges::find(finding.processes, thread.process->key) == finding.processes.end()) {
      finding.processes.push_back(thread.process->key);
    }
  }
  if (circle.size() == 1 && first.woke)
    finding.message += "; signals wake it, but it has the lock itself";
  // It has the lock itself, or another process is to release it, which does nothing for long.
  if (circle.size() == 1 && may_be_saved(facts, first)) {
    const bool is_at_rest = nothing_goes_on_for(facts).value_or(0) >= kLongRest;
    finding.severity = is_at_rest ? Severity::kWarning : Severity::kInfo;
    finding.confidence = Confidence::kPossible;
    finding.message += ", unless another process that shares it releases it";
  }
  finding.prove(count_fact("threads_in_the_circle", circle.size(),
                           "owners of the locks they wait for", facts.last->at));
  finding.rule_out("contention", "each waits for the next, and none ran");
  finding.advise(advice_for_circle(facts, circle), {}, "dlprobe deadlock --pid PID");
  // Nothing but that it has handlers of signals speaks for one.
  if (circle.size() == 1 && !first.woke && may_be_of_handler(first)) finding.advise(kTakenTwice);
  return {std::move(finding), circle.front()};
}

bool is_of_fork_server(const Facts& facts, const ProcessKey& key) {
  const ProcessInfo* info = facts.run->find_process(key);
  return info != nullptr && info->start_method == StartMethod::kForkserver;
}

Finding closed_copy(const Facts& facts, const ThreadFacts& waiter) {
  const bool python = is_lock_of_python(waiter);
  const size_t threads = waiter.process->threads.size();
  Finding finding = finding_about(
      facts, python ? FindingCode::kPythonLockInherited : FindingCode::kForkInheritedLock,
      Confidence::kLikely, waiter);
  finding.message = name_of(facts, waiter) + " waits for a " + waiter.need.label +
                    " that no thread can release: " +
                    (threads == 1 ? Message("its process has no other thread")
                                  : all_of(threads, "thread") + " of its process wait");
  add_remedies_for_fork(finding, facts, waiter);
  finding.advise("If the worker made the lock itself: do not take it twice in one thread",
                 {"threading.RLock()"});
  if (python) {
    finding.advise("Make a new lock in the child",
                   {"os.register_at_fork(after_in_child=make_lock_anew)"},
                   "dlprobe deadlock --pid PID");
  }
  return finding;
}

// Others of their process that wait in code of the user's, and may have the lock.
std::vector<size_t> others_at_work(const Facts& facts, const std::vector<size_t>& waiters) {
  std::vector<size_t> others;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (thread.process == facts.threads[waiters.front()].process && thread.doomed &&
        std::ranges::count(waiters, i) == 0 && user_frame(*thread.thread) != nullptr)
      others.push_back(i);
  }
  return others;
}

Finding closed_process(const Facts& facts, const std::vector<size_t>& waiters) {
  const ThreadFacts& first = facts.threads[waiters.front()];
  Finding finding = finding_about(facts, FindingCode::kLockCycle, Confidence::kLikely, first);
  for (const size_t each : waiters) {
    const ThreadFacts& waiter = facts.threads[each];
    finding.message += (finding.message.empty() ? "" : "; ") + name_of(facts, waiter) +
                       " waits for " + waiter.need.words;
  }
  const auto others = others_at_work(facts, waiters);
  for (const size_t each : others)
    finding.message += "; " + name_of(facts, facts.threads[each]) + " waits for " +
                       facts.threads[each].need.words + place_of(facts.threads[each]);
  finding.message += others.empty() ? "; no other thread of the process can release " +
                                          OwnWords(waiters.size() == 1 ? "it" : "them")
                                    : OwnWords(": whoever has the lock waits too");
  const OwnWords alone =
      others.empty() ? "" : "Release the lock before you wait for another thread that needs it. ";
  finding.advise(waiters.size() == 1 ? alone +
                                           "Do not take the lock twice in one thread "
                                           "(RLock), and always release it: with lock:"
                                     : "Take the locks in the same order everywhere",
                 {}, "dlprobe deadlock --pid PID");
  return finding;
}

// The first worker that has failed; null: none.
const ProcessExit* failed_client(const Facts& facts) {
  const auto& exits = facts.run->exits;
  const auto found = std::ranges::find_if(exits, [&](const ProcessExit& exit) {
    const ProcessInfo* info = facts.run->find_process(exit.key);
    return info != nullptr && info->role == Role::kWorker && exit.at <= facts.last->at &&
           exit.wait_status.value_or(0) != 0;
  });
  return found == exits.end() ? nullptr : &*found;
}

// A thread of a manager's server waits for what another client has to do: release a lock, empty a
// queue. None of them can go on.
std::optional<RootCause> closed_manager(const Facts& facts, size_t index,
                                        const std::vector<bool>& explained) {
  const ThreadFacts& server = facts.threads[index];
  const bool is_lock = server.need.kind == NeedKind::kLock;
  const bool waits = is_lock || server.need.kind == NeedKind::kNotification;
  if (!waits || !server.doomed || explained[index] || !answers_for_a_manager(*server.thread) ||
      !is_waited_for(facts, index))
    return std::nullopt;
  const auto client = std::ranges::find_if(facts.threads, [&](const ThreadFacts& each) {
    return each.doomed && each.is_main() && each.need.kind == NeedKind::kChannel &&
           std::ranges::count(each.need.providers, index) > 0;
  });
  const ThreadFacts& waiter = client == facts.threads.end() ? server : *client;
  const ProcessExit* dead = is_lock ? failed_client(facts) : nullptr;
  Finding finding =
      finding_about(facts, dead != nullptr ? FindingCode::kLockHolderDead : FindingCode::kLockCycle,
                    Confidence::kLikely, waiter);
  finding.message = name_of(facts, waiter) + place_of(waiter) +
                    " waits in multiprocessing.Manager (" +
                    describe(*facts.run, server.process->key) + ") for " +
                    (is_lock ? Message("a lock that is taken") : server.need.words) +
                    ", and each client that is left waits, too: ";
  if (dead != nullptr) {
    finding.message += describe(*facts.run, dead->key) + ", which " +
                       describe_exit(dead->wait_status) + ", has not released it";
    finding.processes.push_back(dead->key);
  } else {
    finding.message += "nobody can end that wait";
  }
  if (is_lock)
    finding.advise("Release it also after an error, and wait for it with a time limit",
                   {"with lock: ...", "lock.acquire(timeout=60)"}, "dlprobe deadlock --pid PID");
  else
    add_remedy_for_answer(finding, facts, waiter);
  return RootCause{std::move(finding), index};
}

// A process in which nobody runs and nobody can be woken from outside, and someone wants a lock;
// asked at its first thread.
std::optional<RootCause> closed_by_locks(const Facts& facts, size_t index,
                                         const std::vector<bool>& explained) {
  const ProcessSnapshot& process = *facts.threads[index].process;
  if (index > 0 && facts.threads[index - 1].process == &process) return std::nullopt;
  std::vector<size_t> waiters;
  for (size_t i = index; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (thread.process != &process || thread.need.kind != NeedKind::kLock) continue;
    if (!thread.doomed || explained[i]) continue;
    waiters.push_back(i);
  }
  if (waiters.empty()) return std::nullopt;
  const FutexWait& futex = futex_of(facts.threads[waiters.front()]);
  const auto same_lock = [&](size_t each) {
    return facts.threads[each].need.object == facts.threads[waiters.front()].need.object;
  };
  // A fork server has neither the trainer's locks nor its threads; what it preloads may start some.
  const bool of_server =
      is_of_fork_server(facts, process.key) && !had_other_threads(facts, process.key);
  // In the memory of its parent it is none, or free, and no other thread there had it at the fork.
  const bool was_free =
      futex.in_parent == LockOfParent::kNone ||
      (futex.in_parent == LockOfParent::kFree && !had_other_threads(facts, process.key));
  const bool inherited = is_forked_copy(*facts.run, process.key) && !of_server && !was_free &&
                         std::ranges::all_of(waiters, same_lock);
  Finding finding = inherited ? closed_copy(facts, facts.threads[waiters.front()])
                              : closed_process(facts, waiters);
  finding.prove(
      count_fact("threads_here", process.threads.size(), "/proc/PID/task", facts.last->at));
  finding.prove(text_fact("who_can_wake_it",
                          "threads of this process only: FUTEX_PRIVATE_FLAG, no timeout",
                          "/proc/PID/task/TID/syscall", facts.last->at));
  // A thread of the parent's that had it may have ended since.
  if (was_free && futex.in_parent == LockOfParent::kFree)
    add_remedies_for_fork(finding, facts, facts.threads[waiters.front()]);
  if (futex.in_parent != LockOfParent::kUnknown)
    finding.prove(text_fact("lock_of_parent", own(to_string(futex.in_parent)),
                            "memory of the process that forked it", facts.last->at));
  return RootCause{std::move(finding), waiters.front()};
}

std::optional<RootCause> circle_of_holders(const Facts& facts, size_t index,
                                           const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  if (!thread.doomed || explained[index] || !is_hold(thread)) return std::nullopt;
  const auto circle = circle_from(facts, index, is_hold);
  // A pipe that is full of what only orphans are left to read was to be read by their trainer.
  const bool was_left = is_orphan(facts, thread) && std::ranges::any_of(circle, [&](size_t each) {
                          return facts.threads[each].need.kind == NeedKind::kChannel;
                        });
  if (circle.empty() || was_left) return std::nullopt;
  return lock_circle(facts, circle);
}

// In the same functions and lines of the user's at every look, next to idle.
bool is_at_one_place(const ThreadFacts& thread) {
  constexpr double kMostOfAPoll = 0.1;  // of a core
  return core_share(thread, thread.looks.size()).run < kMostOfAPoll &&
         std::ranges::all_of(
             thread.looks,
             [&](const Look& look) {
               return look.thread->stack.empty() || same_user_frames(*look.thread, *thread.thread);
             });
}

// A Pool whose tasks are not given out: their thread pickles a function of a module (which imports
// it) that the thread which waits for the pool, or asks again and again, is still importing.
std::optional<RootCause> pool_behind_import(const Facts& facts, size_t index,
                                            const std::vector<bool>& explained) {
  const ThreadFacts& giver = facts.threads[index];
  const bool is_held = giver.still && hands_on_tasks(*giver.thread) &&
                       waits_for_import(*giver.thread) && giver.need.providers.size() == 1;
  if (!is_held || explained[index] || idle_processes(facts, explained, true).empty())
    return std::nullopt;
  const size_t importer = giver.need.providers.front();
  const ThreadFacts& waiter = facts.threads[importer];
  const bool waits = waiter.doomed || (waiter.still && waits_for_pool(*waiter.thread));
  const bool asks = waiter.woke && !waiter.thread->wait.running && is_at_one_place(waiter) &&
                    is_worth_a_warning(facts, giver, kWorthAWarning);
  if (!waits && !asks) return std::nullopt;
  RootCause cause = lock_circle(facts, {importer, index});
  Finding& finding = cause.finding;
  finding.confidence = Confidence::kLikely;
  if (!waits && facts.last->at - giver.since < kLongRest) finding.severity = Severity::kWarning;
  finding.message = name_of(facts, waiter) + (waits ? " waits" : " asks again and again") +
                    " for a pool of processes while it imports a module" + place_of(waiter) + "; " +
                    name_of(facts, giver) +
                    ", which gives out the pool's tasks, waits for that import to end";
  return cause;
}

// Threads of one process, one of which has a lock and waits to be woken by one that needs it.
std::optional<RootCause> circle_within(const Facts& facts, size_t index,
                                       const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  if (!thread.doomed || explained[index] || thread.need.kind != NeedKind::kOwnedLock)
    return std::nullopt;
  const auto circle = circle_from(facts, index, [&](const ThreadFacts& each) {
    const bool waits = is_hold(each) || each.need.kind == NeedKind::kNotification;
    return waits && each.process == thread.process;
  });
  if (circle.empty()) return std::nullopt;
  RootCause cause = lock_circle(facts, circle);
  cause.finding.confidence = Confidence::kLikely;
  const bool by_signal = std::ranges::any_of(circle, [&](size_t each) {
    const ThreadFacts& waiter = facts.threads[each];
    return waiter.is_main() && waiter.need.kind == NeedKind::kNotification &&
           may_be_woken_by_signal(waiter);
  });
  if (by_signal) {
    cause.finding.severity = Severity::kWarning;
    cause.finding.message += ", unless a signal wakes one of them";
  }
  return cause;
}

// A server in a thread, which wants a lock of the one that waits for who waits for its answer.
std::optional<RootCause> circle_through_server(const Facts& facts, size_t index) {
  const auto is_part = [&](const ThreadFacts& each) {
    const bool asks = waits_for_data(each) && (is_connection(each.thread->wait.files.front()) ||
                                               !waits_for_task(facts, each));
    return asks || is_hold(each);
  };
  const auto circle = circle_from(facts, index, is_part, true);
  if (circle.empty()) return std::nullopt;
  RootCause cause = lock_circle(facts, circle);
  cause.finding.confidence = Confidence::kLikely;
  cause.finding.remedies = {
      {.title = "Release the lock before you wait for another process: what it needs is answered "
                "by a thread that wants that lock",
       .verify = "dlprobe deadlock --pid PID"}};
  return cause;
}

// The same, through data that one waits for from another.
std::optional<RootCause> circle_with_data(const Facts& facts, size_t index,
                                          const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  if (!thread.doomed || explained[index]) return std::nullopt;
  if (thread.need.kind == NeedKind::kOwnedLock) return circle_through_server(facts, index);
  if (!is_hold_of_work(facts, thread)) return std::nullopt;
  const auto circle = circle_from(facts, index, is_link);
  if (circle.empty()) return std::nullopt;
  RootCause cause = lock_circle(facts, circle);
  cause.finding.confidence = Confidence::kLikely;
  return cause;
}

bool is_read_by_a_trainer(const Facts& facts, size_t index) {
  return std::ranges::any_of(facts.threads, [&](const ThreadFacts& each) {
    return each.role() == Role::kTrainer && waits_for_data(each) &&
           std::ranges::count(each.need.providers, index) > 0;
  });
}

// The two sides of one connection; the one that a trainer waits for comes first.
RootCause circle_of_connection(const Facts& facts, std::vector<size_t> circle) {
  if (is_read_by_a_trainer(facts, circle.back())) std::ranges::reverse(circle);
  RootCause cause = lock_circle(facts, circle);
  cause.finding.message = words_of_wait(facts, facts.threads[circle.front()]) + "; " +
                          words_of_wait(facts, facts.threads[circle.back()]) +
                          ": each side of one connection waits for data from the other";
  cause.finding.remedies = {
      {.title = "What one side sent is still in its buffer, or is shorter than what the other "
                "reads: flush each request and answer, and let both agree on its length",
       .commands = {"stream.flush()", "connection.settimeout(60)"},
       .verify = "dlprobe deadlock --pid PID"}};
  return cause;
}

// A program and the process that started it, or the two sides of a connection, each of which waits
// for what the other writes: a part of it lies in a buffer, or was never written.
std::optional<RootCause> circle_of_talk(const Facts& facts, size_t index,
                                        const std::vector<bool>& explained) {
  // An idle worker of a library's has no code of the user's on its stack.
  const auto asks = [&](const ThreadFacts& each) {
    return waits_for_data(each) &&
           (!waits_for_task(facts, each) || user_frame(*each.thread) != nullptr);
  };
  const ThreadFacts& thread = facts.threads[index];
  if (!thread.doomed || explained[index] || !asks(thread)) return std::nullopt;
  const auto circle = circle_from(facts, index, asks);
  if (circle.size() != 2) return std::nullopt;
  const ThreadFacts& other = facts.threads[circle.back()];
  const bool is_connection = are_of_one_connection(thread, other);
  if (!is_connection && !is_started_by_other(facts, thread, other)) return std::nullopt;
  RootCause cause =
      is_connection ? circle_of_connection(facts, circle) : lock_circle(facts, circle);
  cause.finding.confidence = Confidence::kLikely;
  return cause;
}

// What an orphan waits for, beside a lock of another orphan in a circle, its trainer was to give.
std::optional<RootCause> left_behind(const Facts& facts, size_t index,
                                     const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  const bool is_it = thread.doomed && !explained[index] && is_orphan(facts, thread) &&
                     thread.need.kind != NeedKind::kNotification;
  if (!is_it) return std::nullopt;
  return left_with_orphans(facts, index);
}

// By index, whether a thread's wait ends in one of `known`.
std::vector<bool> explained_by(const Facts& facts, const std::vector<RootCause>& known) {
  std::vector<bool> explained(facts.threads.size(), false);
  for (const RootCause& cause : known)
    explained[cause.thread] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < facts.threads.size(); ++i) {
      if (explained[i] || !facts.threads[i].doomed) continue;
      const auto& providers = facts.threads[i].need.providers;
      explained[i] =
          std::ranges::any_of(providers, [&](size_t provider) { return explained[provider]; });
      changed = changed || explained[i];
    }
  }
  return explained;
}

}  // namespace

std::vector<RootCause> find_unexplained(const Facts& facts, const std::vector<RootCause>& known,
                                        std::span<const ThreadRule> rules) {
  std::vector<RootCause> causes;
  std::vector<RootCause> all = known;
  std::vector<bool> explained = explained_by(facts, all);
  for (const ThreadRule rule : rules) {
    for (size_t i = 0; i < facts.threads.size(); ++i) {
      const auto cause = rule(facts, i, explained);
      if (!cause) continue;
      causes.push_back(*cause);
      all.push_back(*cause);
      explained = explained_by(facts, all);
    }
  }
  return causes;
}

std::vector<RootCause> find_circles(const Facts& facts, const std::vector<RootCause>& known) {
  return find_unexplained(
      facts, known,
      std::array{unwoken_loop, closed_manager, circle_of_holders, pool_behind_import, circle_within,
                 closed_by_locks, left_behind, circle_with_data, task_behind_task, lost_batch,
                 circle_of_talk, lost_notifier});
}

}  // namespace dlprobe::probes::deadlock
