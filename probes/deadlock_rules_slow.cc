#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "lib/base/units.h"
#include "probes/deadlock_rules.h"
#include "probes/facts.h"

namespace dlprobe {
namespace {

constexpr double kBusy = 0.9;  // running, or ready to
constexpr BootNs kWorthAWord = 2 * kSecond;
constexpr BootNs kWorthAWarning = 10 * kSecond;

bool is_written_by_workers(const DeadlockFacts& facts, const Need& need) {
  return need.kind == NeedKind::kChannel && need.relation == "written by" &&
         std::ranges::any_of(need.providers, [&](size_t each) {
           return facts.threads[each].role() == Role::kWorker;
         });
}

// The trainer, or its pin-memory thread, waits for a batch the whole time.
bool waits_for_batch(const DeadlockFacts& facts, const ThreadFacts& trainer) {
  if (!waits_in_a_library(*trainer.thread)) return false;
  const auto stands = [](const ThreadFacts& thread) { return thread.still || thread.polls_again; };
  if (trainer.need.kind == NeedKind::kChannel) {
    return stands(trainer) && is_written_by_workers(facts, trainer.need);
  }
  const bool parked = trainer.thread->futex.has_value() && trainer.same_stack;
  return parked && std::ranges::any_of(facts.threads, [&](const ThreadFacts& each) {
           return each.process == trainer.process && stands(each) &&
                  is_written_by_workers(facts, each.need);
         });
}

const ThreadFacts* trainer_of(const DeadlockFacts& facts) {
  const auto found = std::ranges::find_if(facts.threads, [](const ThreadFacts& each) {
    return each.is_main() && each.role() == Role::kTrainer;
  });
  return found == facts.threads.end() ? nullptr : &*found;
}

std::string place_of(const ThreadFacts& thread) {
  const StackFrame* frame = user_frame(*thread.thread);
  if (frame == nullptr) frame = python_frame(*thread.thread);
  if (frame == nullptr) return {};
  return " (" + frame->function + ", " + frame->file + ":" + std::to_string(frame->line) + ")";
}

// The user's frames alone, from the innermost to the outermost.
bool same_user_frames(const ThreadSnapshot& a, const ThreadSnapshot& b) {
  return std::ranges::equal(a.stack | std::views::filter(is_of_user),
                            b.stack | std::views::filter(is_of_user));
}

// The user's own code was at the same place at every look. The innermost line alone is not enough:
// a recursion is often on one and the same line, at another depth.
bool stays_on_line(const ThreadFacts& worker) {
  if (user_frame(*worker.thread) == nullptr) return worker.same_stack;
  return std::ranges::all_of(worker.looks, [&](const Look& look) {
    return look.thread->stack.empty() || same_user_frames(*look.thread, *worker.thread);
  });
}

// It waits for a task, or for room for its results.
bool has_done_its_work(const DeadlockFacts& facts, const ThreadFacts& worker) {
  return waits_for_task(facts, worker) || waits_for_room(worker);
}

RootCause slow_worker(const DeadlockFacts& facts, size_t index) {
  const ThreadFacts& worker = facts.threads[index];
  const bool busy = worker.busy_share >= kBusy;
  const bool one_place = busy && stays_on_line(worker);
  Finding finding = finding_about(
      facts, one_place ? FindingCode::kWorkerBusyNoProgress : FindingCode::kSlowSample,
      Confidence::kLikely, worker);
  if (facts.span < kWorthAWarning) finding.severity = Severity::kInfo;
  finding.message =
      name_of(facts, worker) +
      (one_place ? " computed all the time on one line" : " worked all the time on one batch") +
      place_of(worker) + "; the trainer waited for it";
  if (!busy && worker.need.words.empty()) {
    finding.message = name_of(facts, worker) + " works on one batch, now and then" +
                      place_of(worker) + "; the trainer waited for it";
  } else if (!busy) {
    finding.message = name_of(facts, worker) + " is in the middle of a batch and waits for " +
                      worker.need.words + place_of(worker) + "; the trainer waits for it";
  }
  finding.evidence.push_back({.name = "busy_share",
                              .value = worker.busy_share,
                              .unit = "1",
                              .source = "/proc/PID/task/TID/schedstat",
                              .at = facts.last->at,
                              .threshold = {}});
  finding.remedies.push_back(
      {.title =
           "Look at that line: is it meant to take so long? Watch for longer to see whether it "
           "moves; more workers hide slow samples, a timeout names them",
       .commands = {"dlprobe deadlock --for 30s --pid " + std::to_string(worker.process->key.pid),
                    "DataLoader(..., num_workers=N, timeout=SECONDS)"},
       .applies_to = {"code"},
       .verify = "dlprobe stacks " + std::to_string(worker.process->key.pid)});
  return {std::move(finding), index};
}

// A worker that its trainer left in the middle of a batch. It ends with that batch (PyTorch's asks
// for its parent between two), unless it never comes to that end.
RootCause orphan_at_work(const DeadlockFacts& facts, size_t index) {
  const ThreadFacts& orphan = facts.threads[index];
  Finding finding = finding_about(facts, FindingCode::kOrphanedWorker, Confidence::kLikely, orphan);
  finding.severity = orphan.still ? Severity::kWarning : Severity::kInfo;
  finding.message = name_of(facts, orphan) + " is in the middle of a batch" +
                    (orphan.still ? " and waits for " + orphan.need.words : "") + place_of(orphan) +
                    ": its trainer is gone, nobody needs what it makes";
  add_orphan(finding, facts, orphan);
  return {std::move(finding), index};
}

std::vector<RootCause> orphans_at_work(const DeadlockFacts& facts) {
  std::vector<RootCause> causes;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    const bool is_it = thread.is_main() && thread.role() == Role::kWorker &&
                       is_orphan(facts, thread) && thread.has_history &&
                       !has_done_its_work(facts, thread);
    if (is_it) causes.push_back(orphan_at_work(facts, i));
  }
  return causes;
}

std::optional<RootCause> stuck_consumer(const DeadlockFacts& facts, const ThreadFacts& trainer) {
  size_t workers = 0;
  for (const ThreadFacts& each : facts.threads) {
    if (!each.is_main() || each.role() != Role::kWorker) continue;
    ++workers;
    if (!has_done_its_work(facts, each)) return std::nullopt;
  }
  const bool stands = trainer.still && trainer.need.kind != NeedKind::kNothing;
  if (workers == 0 || !stands) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kLikely, trainer);
  if (facts.span < kWorthAWarning) finding.severity = Severity::kInfo;
  finding.message =
      "The loader is fine: " + all_of(workers, "worker") +
      (workers == 1 ? " has done its work and waits; " : " have done their work and wait; ") +
      name_of(facts, trainer) + " waits for " + trainer.need.words + place_of(trainer);
  finding.evidence.push_back(count_fact(
      "idle_workers", workers, "/proc/PID/task/TID/syscall, /proc/PID/fd", facts.last->at));
  finding.remedies.push_back(
      {.title = "Look at what the trainer waits for: another rank of a collective operation, a "
                "server, a lock of its own",
       .commands = {"dlprobe stacks " + std::to_string(trainer.process->key.pid)},
       .applies_to = {"code"},
       .verify = ""});
  return RootCause{std::move(finding), facts.find(trainer.process->key, trainer.thread->tid)};
}

}  // namespace

std::vector<RootCause> find_slow_parts(const DeadlockFacts& facts) {
  const ThreadFacts* trainer = trainer_of(facts);
  if (trainer == nullptr) return orphans_at_work(facts);
  if (facts.span < kWorthAWord) return {};
  std::vector<RootCause> causes;
  if (!waits_for_batch(facts, *trainer)) {
    if (auto cause = stuck_consumer(facts, *trainer)) causes.push_back(std::move(*cause));
    return causes;
  }
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (!thread.is_main() || thread.role() != Role::kWorker || !thread.has_history) continue;
    if (!has_done_its_work(facts, thread)) causes.push_back(slow_worker(facts, i));
  }
  return causes;
}

}  // namespace dlprobe
