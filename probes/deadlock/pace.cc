// How fast a thread goes on, if it does.

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/units.h"
#include "probes/deadlock/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

// How often the process read or wrote from that moment to the last look at the thread, by the
// samples in between.
uint64_t calls_since(const Facts& facts, const ThreadFacts& thread, BootNs from) {
  std::optional<uint64_t> first;
  uint64_t last = 0;
  for (const Sample& sample : facts.run->samples) {
    if (sample.at < from || sample.at > thread.looks.front().at) continue;
    const auto process =
        std::ranges::find(sample.processes, thread.process->key, &ProcessSample::key);
    if (process == sample.processes.end()) continue;
    const auto& calls = process->io_calls;
    if (!calls || !calls->has_value()) continue;
    last = calls->value();
    if (!first) first = last;
  }
  return last - first.value_or(last);
}

}  // namespace

bool goes_on(const Facts& facts, const ThreadFacts& thread) {
  constexpr BootNs kAfterATimeout = 2 * kSecond;
  const Look& first = thread.looks.back();
  const uint64_t slices = thread.thread->timeslices - first.thread->timeslices;
  const bool is_awake_often =
      std::cmp_greater(slices, (thread.looks.front().at - first.at) / kAfterATimeout);
  return is_awake_often && calls_since(facts, thread, first.at) > 0;
}

bool hands_on(const Facts& facts, const ThreadFacts& worker) {
  constexpr BootNs kLately = 30 * kSecond;
  const Look& last = worker.looks.front();
  const BootNs from = std::max(worker.looks.back().at, last.at - kLately);
  if (worker.role() != Role::kWorker || !worker.woke || calls_since(facts, worker, from) == 0)
    return false;
  return std::ranges::any_of(facts.threads, [&](const ThreadFacts& each) {
    return each.role() == Role::kTrainer && calls_since(facts, each, from) > 0;
  });
}

bool polls_by_sleep(const ThreadFacts& thread) {
  return thread.waits_again && thread.woke && thread.need.kind == NeedKind::kNothing;
}

bool a_trainer_goes_on(const Facts& facts) {
  return std::ranges::any_of(facts.threads, [&](const ThreadFacts& each) {
    const bool waits = each.still || (each.waits_again && !goes_on(facts, each));
    return each.is_main() && each.role() == Role::kTrainer && !waits;
  });
}

bool is_worth_a_warning(const Facts& facts, const ThreadFacts& thread, BootNs without_pace) {
  constexpr BootNs kSeveral = 5;
  constexpr BootNs kPaceIsKnown = 10 * kSecond;
  // It may be younger than the watch, and so may its wait.
  const BootNs watched = thread.looks.front().at - thread.looks.back().at;
  const BootNs stood = thread.still ? facts.last->at - thread.since : watched;
  if (std::min(watched, stood) >= kWorthAWarning) return true;
  if (!thread.still || facts.ticks_per_second == 0) return false;
  const auto born = static_cast<BootNs>(thread.process->key.start_ticks) *
                    (kSecond / static_cast<BootNs>(facts.ticks_per_second));
  const BootNs worked = std::max<BootNs>(thread.since - born, 0);
  const auto slices = static_cast<BootNs>(std::max<uint64_t>(thread.thread->timeslices, 1));
  const BootNs expected = worked < kPaceIsKnown ? without_pace : kWorthAWarning;
  return facts.last->at - thread.since >= std::max(expected, kSeveral * (worked / slices));
}

}  // namespace dlprobe::probes::deadlock
