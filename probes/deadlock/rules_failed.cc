// What waits for one that has failed: a loop that asks memory for what a process was to write
// (DLP0312), and a program whose own task ended by an exception (DLP0305).

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <ranges>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "lib/model/run_words.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::deadlock {
namespace {

// Not of one that its trainer ended.
bool has_failed(const ProcessExit& exit) {
  if (!exit.wait_status) return false;
  const int status = *exit.wait_status;
  return WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGTERM;
}

// The last worker that had failed by the last look; null: none.
const ProcessExit* failed_worker(const Facts& facts) {
  const ProcessExit* last = nullptr;
  for (const ProcessExit& exit : facts.run->exits) {
    const ProcessInfo* info = facts.run->find_process(exit.key);
    const bool is_worker = info != nullptr && info->role == Role::kWorker;
    if (is_worker && exit.at <= facts.last->at && has_failed(exit)) last = &exit;
  }
  return last;
}

// For how long by then it has read and written nothing since `from`; nothing: it has, or that is
// not known.
std::optional<BootNs> without_a_call(const Facts& facts, const ProcessKey& key, BootNs from) {
  std::optional<uint64_t> first;
  BootNs since = 0;
  BootNs until = 0;
  for (const Sample& sample : facts.run->samples) {
    const auto process = std::ranges::find(sample.processes, key, &ProcessSample::key);
    if (sample.at < from || sample.at > facts.last->at || process == sample.processes.end())
      continue;
    const auto& calls = process->io_calls;
    if (!calls) continue;
    if (!calls->has_value() || (first && **calls != *first)) return std::nullopt;
    if (!first) since = sample.at;
    first = **calls;
    until = sample.at;
  }
  return first ? std::optional(until - since) : std::nullopt;
}

// Trainers but that one: for the end of their processes, or for what they make.
bool trainers_wait(const Facts& facts, const ThreadFacts& but) {
  return std::ranges::all_of(facts.threads, [&](const ThreadFacts& each) {
    return &each == &but || !each.is_main() || each.role() != Role::kTrainer || each.still ||
           each.waits_again;
  });
}

// A trainer may compute for long, but not in one line of Python that calls no library.
bool asks_memory(const ThreadFacts& trainer) {
  constexpr size_t kManyLooks = 8;
  const auto is_there = [&](const Look& look) {
    return same_user_frames(*look.thread, *trainer.thread);
  };
  // Native code is between, but not all the time.
  const auto is_in_python = [](const Look& look) {
    return is_python(blamed_library(*look.thread));
  };
  return trainer.looks.size() >= kManyLooks && std::ranges::all_of(trainer.looks, is_there) &&
         std::ranges::count_if(trainer.looks, is_in_python) > 1;
}

bool computes_all_along(const ThreadFacts& thread) {
  constexpr double kNearlyAll = 0.9;  // of a core
  const bool may_spin =
      thread.role() == Role::kWorker || (thread.role() == Role::kTrainer && asks_memory(thread));
  return may_spin && thread.is_main() && thread.looks.size() > 1 &&
         lasts_long(thread, thread.looks.size()) && thread.busy_share >= kNearlyAll &&
         user_frame(*thread.thread) != nullptr;
}

bool is_at_queue(const WaitingTasks& tasks) {
  return std::ranges::any_of(tasks.stack, [](const StackFrame& frame) {
    return is_of_standard_library(frame.file, "asyncio/queues.py");
  });
}

// At an asyncio.Queue nobody waits until a signal ends the program. The loop has nothing but the
// pipe by which it is woken.
bool waits_at_queue_of_loop(const ThreadFacts& thread) {
  const std::vector<WaitingTasks>& tasks = thread.thread->tasks;
  return thread.still && thread.thread->wait.files.size() == 1 && !tasks.empty() &&
         is_at_queue(tasks.front());
}

}  // namespace

void blame_failed_task(const Facts& facts, RootCause& cause) {
  Finding& finding = cause.finding;
  const ProcessSnapshot& process = *facts.threads[cause.thread].process;
  const size_t main = facts.find(process.key, process.key.pid);
  const bool may_be_why = finding.code == FindingCode::kConsumerStuck ||
                          finding.code == FindingCode::kWaitsForMissingThread ||
                          finding.code == FindingCode::kLockCycle;
  const bool is_it = may_be_why && finding.severity != Severity::kInfo &&
                     !process.failed_tasks.empty() && main != Facts::kNone &&
                     facts.threads[main].need.kind == NeedKind::kNotification;
  if (!is_it) return;
  const ThreadSnapshot& waiter = *facts.threads[main].thread;
  const FailedTasks& failed = process.failed_tasks.front();
  const bool is_of_loop = !waiter.tasks.empty();
  const StackFrame* frame = user_frame(failed.stack);
  const Message what = as_name(failed.exception) + place_of(frame);
  finding.message = (failed.count == 1 ? Message("a task")
                                       : counted(static_cast<uint64_t>(failed.count), "task")) +
                    " of " + describe(*facts.run, process.key) + " ended with " + what +
                    (is_of_loop ? ", which nobody has asked for; " : "; that may be why: ") +
                    finding.message;
  // Of a future nobody knows whether its exception was asked for.
  if (is_of_loop && finding.code == FindingCode::kConsumerStuck) {
    finding.code = FindingCode::kWaitsForMissingThread;
    if (waits_at_queue_of_loop(facts.threads[main])) finding.severity = Severity::kError;
  }
  finding.prove(text_fact("exception", what, "objects of Python in memory", facts.last->at));
  if (frame != nullptr) {
    finding.places.clear();
    add_source(finding, frame->file, frame->line, "raised in " + as_name(frame->function));
  }
  finding.remedies.insert(
      finding.remedies.begin(),
      {.title =
           "Fix that exception, and ask each task for its result: then the program ends, not waits",
       .commands = {is_of_loop ? "async with asyncio.TaskGroup() as group: group.create_task(...)"
                               : "future.add_done_callback(lambda done: done.result())"},
       .verify = "dlprobe deadlock --pid PID"});
}

void blame_failed_program(const Facts& facts, RootCause& cause) {
  const ProcessKey& key = facts.threads[cause.thread].process->key;
  const size_t main = facts.find(key, key.pid);
  if (main == Facts::kNone || !is_at_end_of_program(*facts.threads[main].thread)) return;
  const auto& events = facts.run->start_events;
  const auto failed = std::ranges::find_if(events, [&](const StartEvent& event) {
    return event.process == key && event.kind == StartEventKind::kFailed &&
           event.ended == Ended::kProcess;
  });
  if (failed == events.end()) return;
  Finding& finding = cause.finding;
  const Message place =
      failed->file.empty() ? Message() : " at " + as_path(failed->file) + ":" + own(failed->line);
  finding.message = describe(*facts.run, key) + " ended with " + as_text(failed->message) + place +
                    "; " + finding.message;
  finding.severity = Severity::kError;
  finding.prove(text_fact("exception", as_text(failed->message), kShimSource, failed->at));
  if (!failed->file.empty()) {
    finding.places.clear();
    add_source(finding, failed->file, failed->line, "raised at");
  }
  finding.remedies.insert(
      finding.remedies.begin(),
      {.title = "Fix that exception: the rest is of it", .verify = "dlprobe run -- COMMAND"});
}

std::optional<RootCause> deserted_listener(const Facts& facts, const Rank& rank) {
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  if (trainer.need.kind != NeedKind::kNewClient || !trainer.still) return std::nullopt;
  const ProcessExit* failed = nullptr;
  size_t ended = 0;
  for (const ProcessInfo& child : facts.run->processes) {
    if (child.ppid != trainer.process->key.pid) continue;
    const ProcessExit* exit = facts.run->find_exit(child.key);
    if (exit == nullptr || exit->at > facts.last->at) return std::nullopt;
    ++ended;
    if (has_failed(*exit)) failed = exit;
  }
  if (failed == nullptr) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kLikely, trainer);
  if (!is_worth_a_warning(facts, trainer)) finding.severity = Severity::kInfo;
  finding.message = words_of_wait(facts, trainer) + ", and " + all_of(ended, "process") +
                    " that it started " + (ended == 1 ? "has" : "have") + " ended; " +
                    describe(*facts.run, failed->key) + " " + describe_exit(failed->wait_status);
  finding.processes.push_back(failed->key);
  finding.advise(
      "Read why that one failed, and see whether the others live while you wait for them",
      {"if process.poll() is not None: raise RuntimeError('it has ended')"},
      "dlprobe run -- COMMAND");
  return RootCause{std::move(finding), rank.trainer};
}

std::optional<RootCause> loop_without_a_task(const Facts& facts, const Rank& rank) {
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  const bool waits_there = std::ranges::all_of(trainer.looks, [](const Look& look) {
    return std::ranges::any_of(look.thread->tasks, [](const WaitingTasks& tasks) {
      return tasks.is_main && is_at_queue(tasks);
    });
  });
  const bool is_it = waits_there && !trainer.process->failed_tasks.empty() &&
                     lasts_long(trainer, trainer.looks.size());
  if (!is_it) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kLikely, trainer);
  finding.message = words_of_wait(facts, trainer);
  return RootCause{std::move(finding), rank.trainer};
}

std::optional<RootCause> computes_since_failure(const Facts& facts) {
  constexpr BootNs kLongLoop = 10 * kSecond;
  const ProcessExit* failed = failed_worker(facts);
  if (failed == nullptr) return std::nullopt;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (!computes_all_along(thread) || !trainers_wait(facts, thread)) continue;
    const BootNs lasts = without_a_call(facts, thread.process->key, failed->at).value_or(0);
    if (lasts < kLongLoop) continue;
    Finding finding =
        finding_about(facts, FindingCode::kWorkerBusyNoProgress, Confidence::kPossible, thread);
    finding.severity = Severity::kWarning;
    finding.message =
        name_of(facts, thread) + " computes and reads and writes nothing" + place_of(thread) +
        ", for " + format_duration(std::chrono::nanoseconds(lasts)) + " at least; " +
        describe(*facts.run, failed->key) + " " + describe_exit(failed->wait_status) +
        " before: a loop that asks shared memory for what that one was to write has no end";
    finding.processes.push_back(failed->key);
    finding.prove(number_fact("busy_share", thread.busy_share, "1", "/proc/PID/task/TID/schedstat",
                              facts.last->at));
    finding.advise("Read why the other one failed. Give the loop an end: ask whether it lives",
                   {"if not producer.is_alive(): raise RuntimeError('the producer has ended')"},
                   "dlprobe stacks " + own(thread.process->key.pid));
    return RootCause{std::move(finding), i};
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::deadlock
