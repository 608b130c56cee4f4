// A trainer that stands, though its workers have done their work: DLP0314.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

// Of a pipe that nobody but its reader has.
bool is_its_own_pipe(const Facts& facts, const ThreadFacts& thread) {
  const Need& need = thread.need;
  return need.kind == NeedKind::kChannel && !need.others_may && !need.providers.empty() &&
         std::ranges::all_of(need.providers, [&](size_t each) {
           return facts.threads[each].process == thread.process;
         });
}

// An event loop that serves whoever connects is between two requests.
bool lets_clients_in(const ThreadFacts& thread) {
  return std::ranges::any_of(thread.thread->wait.files, [](const WaitedFile& file) {
    return file.kind == FileKind::kListeningSocket;
  });
}

// At every look, at one line of the program; of a running thread a native stack may not be read.
// Of ranks the rules about ranks know for what.
bool waits_for_gpu_all_along(const ThreadFacts& thread) {
  const bool is_rank = thread.info != nullptr && thread.info->rank_of_several() != nullptr;
  return !is_rank && thread.looks.size() > 1 && lasts_long(thread, thread.looks.size()) &&
         waits_for_gpu(*thread.thread) && std::ranges::all_of(thread.looks, [&](const Look& look) {
           const bool is_unread = std::ranges::all_of(look.thread->stack, &StackFrame::python);
           return (is_unread || waits_for_gpu(*look.thread)) &&
                  same_user_frames(*look.thread, *thread.thread);
         });
}

// A trainer that takes batches lets them make more.
bool have_not_run(const Facts& facts, const std::vector<size_t>& workers) {
  return std::ranges::all_of(workers, [&](size_t each) {
    const ThreadFacts& worker = facts.threads[each];
    return (worker.still && worker.since <= worker.looks.back().at) ||
           (worker.polls_again && !goes_on(facts, worker));
  });
}

void add_remedy_to_look(Finding& finding, const Facts& facts, const std::vector<size_t>& way) {
  const ThreadFacts& trainer = facts.threads[way.front()];
  const QueueWait queue = queue_wait(*trainer.thread);
  OwnWords title =
      "Look at what the trainer waits for: another rank of a collective operation, a "
      "server, or its own lock";
  if (queue != QueueWait::kNone)
    title =
        "Find out which thread is at the other end of that queue: it waits elsewhere, or has "
        "ended";
  if (way.size() > 1) title = "Look at the last of these lines: that wait has to end";
  if (ends_at_work(facts, way)) title = "Look at that line: should it take so long?";
  const ThreadFacts& end = facts.threads[way.back()];
  add_remedy_for_answer(finding, facts, trainer);
  finding.advise(std::move(title), {"dlprobe stacks " + own(end.process->key.pid)});
}

// An event loop whose wait ends at the time of its next timer: a coroutine sleeps (asyncio.sleep).
bool has_timer(const Facts& facts, const ThreadFacts& thread) {
  return thread.need.kind == NeedKind::kNotification && !thread.thread->wait.files.empty() &&
         has_timeout(thread.thread->wait, facts.machine);
}

// Ends by itself, at a time.
bool ends_in_time(const Facts& facts, const ThreadFacts& thread) {
  const bool is_timed = thread.thread->futex && thread.thread->futex->timed;
  return thread.need.kind == NeedKind::kNothing || is_timed || has_timer(facts, thread);
}

// The user's own code that looks for work now and then, or waits for what others send: a service.
bool looks_for_work(const Facts& facts, const ThreadFacts& thread) {
  const bool is_rank = thread.info != nullptr && thread.info->rank_of_several() != nullptr;
  if (is_rank || has_data_loader(*facts.run) || user_frame(*thread.thread) == nullptr) return false;
  const auto& files = thread.thread->wait.files;
  const bool is_client = thread.need.kind == NeedKind::kOutside && !files.empty() &&
                         files.front().kind == FileKind::kSocket;
  return thread.woke || is_client || thread.need.kind == NeedKind::kNewClient;
}

// A kernel of the GPU takes its time, and so does a thread that sleeps between two requests, and
// may wake the trainer. Who is known to wake, or waits for work from elsewhere, stands for nothing.
bool stands_for_long(const Facts& facts, const ThreadFacts& trainer, size_t end, bool is_on_gpu) {
  if (is_on_gpu) return trainer.looks.front().at - trainer.looks.back().at >= kLongRest;
  const std::vector<size_t> wakers = wakers_of(facts, trainer, end);
  const auto is_one = [&](auto rule) {
    return std::ranges::any_of(wakers,
                               [&](size_t each) { return rule(facts, facts.threads[each]); });
  };
  if (is_one(ends_when_due) || is_one(looks_for_work)) return false;
  return is_one(ends_in_time) ? facts.last->at - trainer.since >= kLongRest
                              : is_worth_a_warning(facts, trainer);
}

}  // namespace

bool has_done_its_work(const Facts& facts, const ThreadFacts& worker) {
  return waits_for_task(facts, worker) || waits_for_room(worker);
}

bool ends_when_due(const Facts& facts, const ThreadFacts& thread) {
  constexpr BootNs kLongestPlan = kSecond * 60 * 60 * 24;
  const auto& rest = thread.thread->wait.ends_in_ns;
  return thread.still && ((rest && *rest < kLongestPlan) || has_timer(facts, thread));
}

std::vector<size_t> wakers_of(const Facts& facts, const ThreadFacts& trainer, size_t end) {
  std::vector<size_t> wakers = {end};
  const Need& need = facts.threads[end].need;
  if (need.kind == NeedKind::kNotification)
    wakers.insert(wakers.end(), need.providers.begin(), need.providers.end());
  std::erase_if(wakers,
                [&](size_t each) { return facts.threads[each].process != trainer.process; });
  return wakers;
}

std::optional<RootCause> stuck_consumer(const Facts& facts, const Rank& rank) {
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  const bool is_on_gpu = waits_for_gpu_all_along(trainer) && have_not_run(facts, rank.workers);
  const bool all_done = std::ranges::all_of(
      rank.workers, [&](size_t each) { return has_done_its_work(facts, facts.threads[each]); });
  if (is_on_gpu)
    if (auto circle = lock_behind_gpu(facts, rank.trainer)) return circle;
  if (rank.workers.empty() || !all_done || !(trainer.still || is_on_gpu)) return std::nullopt;
  const size_t workers = rank.workers.size();
  const std::vector<size_t> way = way_through(facts, rank.trainer);
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kLikely, trainer);
  const bool is_asking = asks_a_person(trainer);
  const bool is_long = stands_for_long(facts, trainer, way.back(), is_on_gpu);
  const bool is_work = ends_at_work(facts, way) || goes_on(facts, facts.threads[way.back()]);
  const bool is_parked = kind_of(trainer.thread->wait, facts.machine) == WaitKind::kSignal;
  if (!is_long || lets_clients_in(trainer) || is_asking || is_parked || is_work)
    finding.severity = Severity::kInfo;
  const bool is_loader = has_data_loader(*facts.run);
  finding.message =
      (is_loader ? "The loader is fine: " : "") + all_of(workers, "worker") +
      (workers == 1 ? " has done its work and waits; " : " have done their work and wait; ") +
      name_of(facts, trainer) + " waits for " +
      (is_on_gpu ? Message("the GPU") : trainer.need.words) +
      (is_its_own_pipe(facts, trainer) ? ", whose other end only its own process holds" : "") +
      place_of(trainer) + words_of_way(facts, way);
  if (facts.threads[way.back()].need.kind == NeedKind::kNotification)
    finding.message += words_of_others(facts, others_in_code(facts, way));
  finding.message += words_of_end(facts, way);
  finding.prove(count_fact("idle_workers", workers, "/proc/PID/task/TID/syscall, /proc/PID/fd",
                           facts.last->at));
  if (is_asking) {
    finding.advise(
        "Give it what it asks for (input(), breakpoint()), or let "
        "it read nothing",
        {"COMMAND < /dev/null"});
  } else {
    if (is_at_end_of_program(*trainer.thread))
      finding.remedies.push_back(remedy_at_end_of_program());
    add_remedy_to_look(finding, facts, way);
  }
  return RootCause{std::move(finding), ends_at_work(facts, way) ? rank.trainer : way.back()};
}

}  // namespace dlprobe::probes::deadlock
