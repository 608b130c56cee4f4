// Where nobody is left. DLP0303: semaphores that have no holder (of a queue that is full, a
// barrier, a condition, an event, a Semaphore that was not given back), children that are waited
// for, and threads of one process at its own queues. DLP0305: such a queue that no other thread is
// left to fill. DLP0308: pipes of the user's that nobody writes.

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

// What a program parks in until somebody presses Ctrl-C: multiprocessing.Event, which waits in a
// Condition of its own.
bool waits_for_event(const ThreadFacts& thread) {
  return waits_in_synchronize(thread) >= 2;
}

// In a multiprocessing.Condition of the user's, for no state (wait_for).
bool waits_for_notification(const ThreadFacts& thread) {
  const StackFrame* asker = asker_of(*thread.thread);
  return waits_in_synchronize(thread) == 1 && asker != nullptr && is_of_user(*asker) &&
         std::ranges::none_of(thread.thread->stack, [](const StackFrame& frame) {
           return frame.python && frame.function.ends_with("wait_for");
         });
}

struct Sharers {
  std::set<ProcessKey> living;
  std::vector<Message> with_permits;  ///< who has acquired it more often than released it
  bool are_of_python = false;         ///< by SemLock objects; else by their mappings
};

Sharers sharers_of(const Facts& facts, uint64_t inode) {
  Sharers sharers;
  for (const ProcessSnapshot& process : facts.last->processes) {
    const auto state = std::ranges::find(process.sem_locks, inode, &SemLockState::inode);
    if (state == process.sem_locks.end()) continue;
    sharers.living.insert(process.key);
    if (state->count > 0) sharers.with_permits.emplace_back(describe(*facts.run, process.key));
  }
  sharers.are_of_python = !sharers.living.empty();
  // Of a library's own: who has mapped it.
  for (const ChannelEnd& end : facts.last->channel_ends)
    if (const auto process = process_of_thread(facts, end.pid);
        process && end.kind == EndKind::kSemaphore && end.inode == inode)
      sharers.living.insert(*process);
  return sharers;
}

// Children of the sharers that have ended, or of who started them: one of them may have been the
// one to release it.
std::vector<Message> ended_siblings(const Facts& facts, const Sharers& sharers) {
  std::vector<Message> ended;
  for (const ProcessInfo& process : facts.run->processes) {
    const bool is_child = std::ranges::any_of(sharers.living, [&](const ProcessKey& key) {
      const ProcessInfo* sharer = facts.run->find_process(key);
      return key.pid == process.ppid || (sharer != nullptr && sharer->ppid == process.ppid);
    });
    if (is_child && is_known_dead(*facts.run, process.key, facts.last->at)) {
      ended.emplace_back("process " + own(process.key.pid));
    }
  }
  return ended;
}

Remedy remedy_for_count(const ThreadFacts& waiter, bool is_of_python) {
  Remedy remedy{.title =
                    "Always release it: with semaphore:. Waiting with a timeout makes an error "
                    "of the next hang",
                .commands = {"semaphore.acquire(timeout=60)"},
                .verify = "dlprobe deadlock --pid PID"};
  if (!is_of_python) {
    remedy.title =
        "Give it back also where an error leaves the code between, and wait with a time "
        "limit (sem_timedwait): a process that ends does not give it back";
    remedy.commands = {"try: ... finally: release()"};
  } else if (waits_for_room(waiter)) {
    remedy.title =
        "Read a queue until its producers end; a reader that fails has to say so, not "
        "only to log it. Putting with a timeout makes an error of the next hang";
    remedy.commands = {"queue.put(item, timeout=60)"};
  } else if (waits_for_items_done(waiter)) {
    remedy.title =
        "Call task_done() for each item that get() gave, on every way through the loop, also "
        "before continue and after an error";
    remedy.commands = {"try: ... finally: queue.task_done()"};
  } else if (waits_at_barrier(*waiter.thread)) {
    remedy.title = "Let every party reach the barrier, or abort it before it leaves early";
    remedy.commands = {"barrier.abort()", "barrier.wait(timeout=60)"};
  }
  return remedy;
}

// Who reads a pipe of the program's own, of which nobody but children that it forked has the other
// end: `copier` is one of them. Null: nobody.
const ThreadFacts* reader_of_copy(const Facts& facts, size_t copier) {
  const auto is_copy = [&](const ThreadFacts& reader, size_t each) {
    const ProcessKey& key = facts.threads[each].process->key;
    return parent_of(facts, key) == reader.process && is_forked_copy(*facts.run, key);
  };
  const auto found = std::ranges::find_if(facts.threads, [&](const ThreadFacts& reader) {
    const std::vector<size_t>& writers = reader.need.providers;
    return reader.is_main() && waits_for_data(reader) && !waits_for_result(reader) &&
           std::ranges::count(writers, copier) > 0 &&
           std::ranges::all_of(writers, [&](size_t each) { return is_copy(reader, each); });
  });
  return found == facts.threads.end() ? nullptr : &*found;
}

// It may be no more than that: what it waits for comes after the end of that pipe.
void add_copy_of_pipe(Finding& finding, const Facts& facts, size_t copier) {
  const ThreadFacts* reader = reader_of_copy(facts, copier);
  if (reader == nullptr) return;
  finding.message +=
      "; meanwhile " + words_of_wait(facts, *reader) +
      ": a pipe ends when each process that has a copy of its write end has closed it";
  finding.advise(
      "If it is not the one to write into that pipe, let it close the copy that fork made "
      "(or start it before the pipe is made)",
      {"os.close(write_end)  # first in the child"}, "dlprobe deadlock --pid PID");
}

RootCause nobody_left(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  const Sharers sharers = sharers_of(facts, futex_of(waiter).inode);
  Finding finding = finding_about(facts, FindingCode::kLockCycle, Confidence::kLikely, waiter);
  finding.message = name_of(facts, waiter) + " waits for " + waiter.need.words +
                    ", and nobody is left to " +
                    (waits_for_room(waiter) ? "make some" : "end that wait") +
                    ": every process that shares it is waiting too";
  const bool by_signal = std::ranges::any_of(facts.threads, [&](const ThreadFacts& each) {
    return sharers.living.contains(each.process->key) &&
           (may_be_woken_by_signal(each) ||
            (each.role() == Role::kTrainer && catches_one_of(each, std::array{SIGTERM})));
  });
  const std::vector<Message> ended = ended_siblings(facts, sharers);
  if (by_signal || waits_for_event(waiter)) {
    // A program that is parked until it is told to end looks the same, but nobody has ended yet,
    // and nobody waits for results.
    const bool parks = waits_for_event(waiter) && ended.empty() && !trainer_waits_for_result(facts);
    finding.severity = parks ? Severity::kInfo : Severity::kWarning;
    finding.message += ", unless a signal wakes one of them";
  }
  if (!sharers.with_permits.empty() && !waits_for_room(waiter)) {
    finding.message +=
        "; " + joined(sharers.with_permits) + " acquired it more often than they released it";
  }
  if (!ended.empty()) finding.message += "; ended before: " + joined(ended);
  finding.prove(count_fact("processes_that_share_it", sharers.living.size(),
                           "SemLock objects in their memory", facts.last->at));
  finding.prove(text_fact("processes_that_have_acquired_it",
                          sharers.with_permits.empty() ? "none" : joined(sharers.with_permits),
                          "count of their SemLock objects", facts.last->at));
  finding.rule_out(
      "contention",
      "no thread of those that share it ran, sleeps for a time, or can be woken by one "
      "that does");
  if (waits_for_notification(waiter)) {
    finding.advise(
        "A notification that came before the wait is lost: wait for a state that its "
        "sender sets under the same lock",
        {"with condition: condition.wait_for(lambda: ready.value)"}, "dlprobe deadlock --pid PID");
  }
  if (waits_for_event(waiter)) add_copy_of_pipe(finding, facts, index);
  finding.remedies.push_back(remedy_for_count(waiter, sharers.are_of_python));
  return {std::move(finding), index};
}

// From a wait for the end of a child to `reader`, which may be that child, or have a lock that the
// child waits for; empty where no such way leads there.
std::vector<size_t> way_of_holds(const Facts& facts, size_t parent, size_t reader) {
  std::map<size_t, size_t> came_from = {{parent, parent}};
  std::deque<size_t> queue = {parent};
  while (!queue.empty() && !came_from.contains(reader)) {
    const size_t at = queue.front();
    queue.pop_front();
    if (!facts.threads[at].need.has_one_holder()) continue;
    for (const size_t next : facts.threads[at].need.providers)
      if (facts.threads[next].doomed && came_from.emplace(next, at).second) queue.push_back(next);
  }
  if (!came_from.contains(reader)) return {};
  std::vector<size_t> way = {reader};
  while (way.back() != parent)
    way.push_back(came_from.at(way.back()));
  std::ranges::reverse(way);
  return way;
}

// The way to `reader` from the first who waits for the end of a child because of it, and cannot go
// on; empty if there is nobody.
std::vector<size_t> joined_by(const Facts& facts, size_t reader) {
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (i == reader || !thread.doomed || thread.need.kind != NeedKind::kChild) continue;
    auto way = way_of_holds(facts, i, reader);
    if (!way.empty()) return way;
  }
  return {};
}

// A child that waits, maybe for a lock of another that does, for data which its parent, who waits
// for its end, or others who wait would have to send: the end of a queue's input, the last task,
// the end of a pipe.
RootCause joined_too_early(const Facts& facts, const std::vector<size_t>& way) {
  const ThreadFacts& waiter = facts.threads[way.front()];
  Finding finding = finding_about(facts, FindingCode::kLockCycle, Confidence::kLikely, waiter);
  finding.message = name_of(facts, waiter);
  for (const size_t each : way) {
    const ThreadFacts& thread = facts.threads[each];
    finding.message +=
        (each == way.front() ? " waits for " : ", which waits for ") + thread.need.words;
    if (std::ranges::find(finding.processes, thread.process->key) == finding.processes.end()) {
      finding.processes.push_back(thread.process->key);
    }
  }
  finding.message += ": every process that could send it is waiting too";
  const bool by_signal =
      catches_one_of(waiter, std::array{SIGTERM}) || std::ranges::any_of(way, [&](size_t each) {
        return may_be_woken_by_signal(facts.threads[each]);
      });
  if (by_signal) {
    finding.severity = Severity::kWarning;
    finding.message += ", unless a signal wakes one of them";
  }
  finding.advise(
      "Before you wait for the child, tell it to end: close the pipe, or put a last item "
      "(None) into its queue",
      {"process.communicate()", "queue.put(None)", "pool.close(); pool.join()"},
      "dlprobe deadlock --pid PID");
  return {std::move(finding), way.front()};
}

// In a library's loop, for tasks: it writes to no pipe of the program's own.
bool is_idle_worker(const ThreadFacts& thread) {
  const std::vector<StackFrame>& stack = thread.thread->stack;
  const auto start = std::ranges::find_if(stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "process.py");
  });
  return start != stack.end() && std::none_of(stack.begin(), start, is_of_user);
}

// A pipe whose write end its maker, the parent of all who have it, has closed: only forked copies
// are open, and none in the reader itself, which waits for the end of its input.
bool is_kept_open_by_copies(const Facts& facts, const ThreadFacts& reader) {
  const ProcessKey& own_key = reader.process->key;
  const ProcessSnapshot* maker = parent_of(facts, own_key);
  const bool has_own_end = std::ranges::any_of(facts.last->channel_ends, [&](const auto& end) {
    return end.pid == own_key.pid && end.writes &&
           other_end(reader.thread->wait.files.front()) == end.inode;
  });
  const bool has_maker = maker != nullptr && facts.find(maker->key, maker->key.pid) != Facts::kNone;
  return has_maker && !has_own_end && !reader.need.providers.empty() &&
         std::ranges::all_of(reader.need.providers, [&](size_t each) {
           const ProcessKey& key = facts.threads[each].process->key;
           return parent_of(facts, key) == maker && is_forked_copy(*facts.run, key);
         });
}

// Another writer than those that fork made by the way is not there: the reader is a program, whose
// input its parent alone knows, or all are idle.
bool has_no_writer(const Facts& facts, const ThreadFacts& reader) {
  return !is_forked_copy(*facts.run, reader.process->key) ||
         std::ranges::all_of(reader.need.providers, [&](size_t each) {
           return !facts.threads[each].is_main() || is_idle_worker(facts.threads[each]);
         });
}

// That end of input does not come.
RootCause never_ends(const Facts& facts, size_t index) {
  const ThreadFacts& reader = facts.threads[index];
  const ProcessKey& parent = parent_of(facts, reader.process->key)->key;
  const ThreadFacts& maker = facts.threads[facts.find(parent, parent.pid)];
  Finding finding = finding_about(facts, FindingCode::kPipeWithoutPeer, Confidence::kLikely,
                                  user_frame(*reader.thread) == nullptr ? maker : reader);
  finding.processes = {reader.process->key, maker.process->key};
  finding.message = words_of_wait(facts, reader) + ": its input never ends, for " +
                    name_of(facts, maker) +
                    " has closed it, but those it forked still hold a copy of the pipe; " +
                    words_of_wait(facts, maker);
  if (may_be_woken_by_signal(reader)) {
    finding.severity = Severity::kWarning;
    finding.message += ", unless a signal wakes it";
  }
  finding.prove(count_fact("threads_that_could_write", reader.need.providers.size(),
                           "/proc/PID/fdinfo of every process", facts.last->at));
  finding.rule_out("DLP0313", "no process that could write ran or sleeps for a time");
  finding.advise("Close the copy in the workers, or start them without one",
                 {"DataLoader(..., worker_init_fn=lambda _: process.stdin.close())",
                  "DataLoader(..., multiprocessing_context='forkserver')"},
                 "dlprobe deadlock --pid PID");
  return {std::move(finding), index};
}

// A program fed through its input, or a child at a pipe of its own, which a trainer waits for.
std::optional<RootCause> open_input(const Facts& facts, size_t index,
                                    const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  const bool is_it = thread.is_main() && waits_for_data(thread) && !explained[index] &&
                     is_waited_for(facts, index) && is_kept_open_by_copies(facts, thread) &&
                     has_no_writer(facts, thread);
  if (!is_it) return std::nullopt;
  return never_ends(facts, index);
}

std::optional<RootCause> joined_child(const Facts& facts, size_t index,
                                      const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  const bool reads = thread.is_main() && waits_for_data(thread) && !explained[index];
  if (!reads) return std::nullopt;
  const auto way = joined_by(facts, index);
  if (way.empty() || explained[way.front()]) return std::nullopt;
  return joined_too_early(facts, way);
}

// A worker that waits in the middle of a batch for data of its own code's, which nobody sends: the
// trainer waits for that batch, its siblings for tasks.
RootCause never_written(const Facts& facts, size_t index) {
  const ThreadFacts& reader = facts.threads[index];
  Finding finding =
      finding_about(facts, FindingCode::kPipeWithoutPeer, Confidence::kLikely, reader);
  finding.message = name_of(facts, reader) + " waits in the middle of a batch for " +
                    reader.need.words + words_of_server(facts, reader) +
                    ": every process at its other end is waiting too";
  const auto may_be_woken = [&](size_t each) {
    return may_be_woken_by_signal(facts.threads[each]);
  };
  if (may_be_woken(index) || std::ranges::any_of(reader.need.providers, may_be_woken)) {
    finding.severity = Severity::kWarning;
    finding.message += ", unless a signal handler writes";
  }
  finding.prove(count_fact("threads_that_could_write", reader.need.providers.size(),
                           "/proc/PID/fdinfo of every process", facts.last->at));
  finding.rule_out("DLP0106", "it has a task: its loop has called the user's code");
  finding.rule_out("DLP0313", "no process that could write ran or sleeps for a time");
  finding.advise(
      "Find out who should write: a thread that fork did not copy, a process that has "
      "ended, or the trainer, which itself waits for this batch",
      {"select.select([pipe], [], [], 60)", "connection.poll(60)"}, "dlprobe deadlock --pid PID");
  return {std::move(finding), index};
}

std::optional<RootCause> starved_worker(const Facts& facts, size_t index,
                                        const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  const bool is_it = thread.is_main() && thread.role() == Role::kWorker && thread.doomed &&
                     !explained[index] && thread.need.kind == NeedKind::kChannel &&
                     thread.need.relation == "written by" && is_in_a_task(*thread.thread) &&
                     is_waited_for(facts, index);
  if (!is_it) return std::nullopt;
  return never_written(facts, index);
}

std::optional<RootCause> closed_count(const Facts& facts, size_t index,
                                      const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  const bool is_of_job = thread.role() == Role::kWorker || thread.role() == Role::kTrainer;
  const bool is_it = thread.is_main() && is_of_job && thread.doomed && !explained[index] &&
                     thread.need.kind == NeedKind::kSharedCount && !waits_for_task(facts, thread) &&
                     is_waited_for(facts, index);
  if (!is_it) return std::nullopt;
  return nobody_left(facts, index);
}

// First all but events: who may be parked in one is not, where the one who would wake it cannot.
std::optional<RootCause> closed_semaphore(const Facts& facts, size_t index,
                                          const std::vector<bool>& explained) {
  if (waits_for_event(facts.threads[index])) return std::nullopt;
  return closed_count(facts, index, explained);
}

// Whether what ends its wait is a thread of its own process, and nothing else.
bool is_within_process(const ThreadFacts& thread) {
  switch (thread.need.kind) {
    case NeedKind::kNotification:
    case NeedKind::kJoin:
    case NeedKind::kLock:
    case NeedKind::kOwnedLock:
      return true;
    default:
      return false;
  }
}

// What others would have to do, and how to wait for it no longer than a while.
struct WordsForQueue {
  const char* deed;
  const char* command;
};
WordsForQueue words_for(QueueWait queue) {
  switch (queue) {
    case QueueWait::kItem:
      return {.deed = "put one in", .command = "queue.get(timeout=60)"};
    case QueueWait::kRoom:
      return {.deed = "take one out", .command = "queue.put(item, timeout=60)"};
    case QueueWait::kDone:
      return {.deed = "finish them", .command = "queue.task_done()"};
    case QueueWait::kNone:
      break;
  }
  return {.deed = "wake them", .command = "event.wait(timeout=60)"};
}

Remedy remedy_for_queue(const ThreadFacts& first, QueueWait queue, bool is_alone) {
  Remedy remedy{.title =
                    "Let each thread put, take and notify on every way through its loop, also "
                    "before continue and after an error: it waits for what another was to do",
                .commands = {words_for(queue).command},
                .verify = "dlprobe deadlock --pid PID"};
  if (first.need.kind == NeedKind::kJoin && queue == QueueWait::kItem) {
    remedy.title = "Before you wait for the thread, tell it to end: put a last item into its queue";
    remedy.commands = {"queue.put(None)"};
  } else if (queue == QueueWait::kNone && is_at_end_of_program(*first.thread)) {
    return remedy_at_end_of_program();
  } else if (is_alone) {
    remedy.title =
        "Find out which thread was to do that, and why it ended: read its traceback "
        "above. Let a thread that fails tell the one that waits";
  }
  return remedy;
}

// A trainer that stands for a queue.Queue of its own process, or to be woken otherwise, maybe
// through other threads of its: no thread of that process can go on, so none is left to do it.
RootCause nobody_at_queue(const Facts& facts, const std::vector<size_t>& way,
                          const std::vector<size_t>& others) {
  const ThreadFacts& first = facts.threads[way.front()];
  const ThreadFacts& end = facts.threads[way.back()];
  const QueueWait queue = queue_wait(*end.thread);
  const bool is_alone = way.size() == 1 && others.empty();
  Finding finding =
      finding_about(facts, is_alone ? FindingCode::kWaitsForMissingThread : FindingCode::kLockCycle,
                    Confidence::kLikely, first);
  finding.message =
      words_of_wait(facts, first) + words_of_way(facts, way) + words_of_others(facts, others);
  finding.message += is_alone
                         ? ": no other thread of the program is left to "
                         : ": no other thread of the process is at work, so nobody is left to ";
  finding.message += words_for(queue).deed;
  const bool by_signal =
      may_be_woken_by_signal(first) || catches_one_of(first, std::array{SIGTERM, SIGHUP});
  // Who waits for an event may be parked until somebody presses Ctrl-C.
  if (by_signal || queue == QueueWait::kNone) {
    finding.severity = is_worth_a_warning(facts, end) ? Severity::kWarning : Severity::kInfo;
    finding.message += ", unless a signal does";
  }
  finding.prove(
      count_fact("threads_here", first.process->threads.size(), "/proc/PID/task", facts.last->at));
  finding.rule_out("slow",
                   "no thread of the process ran, sleeps for a time, waits with a timeout, "
                   "or for a process or file");
  finding.remedies.push_back(remedy_for_queue(first, queue, is_alone));
  return {std::move(finding), way.front()};
}

std::optional<RootCause> closed_queue(const Facts& facts, size_t index,
                                      const std::vector<bool>& explained) {
  const ThreadFacts& thread = facts.threads[index];
  const bool stands =
      thread.is_main() && thread.role() == Role::kTrainer && thread.doomed && !explained[index];
  if (!stands) return std::nullopt;
  const auto way = way_within(facts, index);
  const ThreadFacts& end = facts.threads[way.back()];
  const bool is_of_program =
      way.size() > 1 && user_frame(*end.thread) != nullptr && !waits_for_future(*end.thread);
  const bool is_it = end.need.kind == NeedKind::kNotification &&
                     (is_of_program || queue_wait(*end.thread) != QueueWait::kNone);
  if (!is_it) return std::nullopt;
  // Where one of the program's threads waits for another process, the cause may be there.
  const auto others = others_in_code(facts, way);
  const bool is_closed = std::ranges::all_of(
      others, [&](size_t each) { return is_within_process(facts.threads[each]); });
  if (!is_closed) return std::nullopt;
  return nobody_at_queue(facts, way, others);
}

}  // namespace

std::vector<RootCause> find_closed_groups(const Facts& facts, const std::vector<RootCause>& known) {
  return find_unexplained(facts, known,
                          std::array{closed_semaphore, closed_count, open_input, joined_child,
                                     starved_worker, closed_queue});
}

}  // namespace dlprobe::probes::deadlock
