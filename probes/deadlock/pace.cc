// How fast a thread goes on, if it does.

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "probes/deadlock/facts.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/waits.h"

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

// What a process has done by that sample, where that is known: time on a CPU, calls that read or
// wrote.
struct WorkDone {
  BootNs at = 0;
  uint64_t ticks = 0;
  std::optional<uint64_t> calls;
};

std::optional<WorkDone> work_done(const Sample& sample, const ProcessKey& key) {
  const auto found = std::ranges::find(sample.processes, key, &ProcessSample::key);
  if (found == sample.processes.end()) return std::nullopt;
  WorkDone work{.at = sample.at, .ticks = found->utime_ticks + found->stime_ticks};
  const auto& calls = found->io_calls;
  if (calls && calls->has_value()) work.calls = calls->value();
  return work;
}

// In a sleep that is over soon: where no lock is asked for, it ends by itself.
bool sleeps_for_a_while(const Facts& facts, const ThreadFacts& thread) {
  const auto asleep = std::ranges::find_if(
      thread.looks, [](const Look& look) { return !look.thread->wait.running; });
  if (thread.need.kind != NeedKind::kNothing || asleep == thread.looks.end()) return false;
  const auto& end = asleep->thread->wait.ends_in_ns;
  return end && *end < kLongRest && !asks_for_lock(facts, asleep->thread->wait);
}

// Data comes, however slowly: in one and the same wait it was woken more often than timeouts do.
bool gets_data(const Facts& facts, const ThreadFacts& thread) {
  constexpr uint64_t kSlicesOfAWake = 2;  // at most, where nothing has come
  constexpr uint64_t kSlicesOfALook = 4;  // of one that stopped it
  const ThreadWait& wait = thread.thread->wait;
  const bool waits_on_one = wait.files.size() == 1 && other_end(wait.files.front());
  if (!waits_on_one || !thread.woke || may_be_woken_by_signal(thread)) return false;
  uint64_t explained = 0;
  for (const Look& look : thread.looks) {
    const ThreadWait& then = look.thread->wait;
    const bool is_same = !then.running && then.files == wait.files;
    if (!is_same && !then.running) return false;
    if (look.thread->stopped) explained += kSlicesOfALook;
  }
  const Look& first = thread.looks.back();
  if (has_timeout(wait, facts.machine)) {
    const int64_t timeout = poll_timeout_ms(wait, facts.machine).value_or(0) * kMillisecond;
    if (timeout <= 0) return false;
    explained += kSlicesOfAWake * static_cast<uint64_t>(1 + (facts.last->at - first.at) / timeout);
  }
  return thread.thread->timeslices - first.thread->timeslices > explained;
}

// Who has the lock that it waits for, or may ask for between two sleeps.
std::vector<size_t> holders_of(const Facts& facts, const ThreadFacts& waiter) {
  if (waiter.need.has_one_holder()) return waiter.need.providers;
  std::vector<size_t> holders;
  if (!may_sleep_for_a_lock(facts, waiter)) return holders;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& other = facts.threads[i];
    const bool has_it = std::ranges::any_of(facts.last->channel_ends, [&](const ChannelEnd& end) {
      return end.kind == EndKind::kFileLock && end.pid == other.process->key.pid &&
             std::ranges::count(waiter.thread->wait.files, end.inode, &WaitedFile::inode) > 0;
    });
    if (has_it && other.is_main() && other.process != waiter.process) holders.push_back(i);
  }
  return holders;
}

}  // namespace

std::optional<BootNs> idle_for(const Facts& facts, const ThreadFacts& thread) {
  constexpr double kLittle = 0.02;  // of a core
  WorkDone last;
  BootNs idle = 0;
  for (const Sample& sample : facts.run->samples | std::views::reverse) {
    const auto work = work_done(sample, thread.process->key);
    if (!work) break;
    if (last.at == 0) last = *work;
    if (!last.calls) last.calls = work->calls;
    const auto span = static_cast<double>(last.at - work->at) / kSecond;
    const double allowed = 2 + kLittle * static_cast<double>(facts.ticks_per_second) * span;
    const bool has_run = static_cast<double>(last.ticks - work->ticks) > allowed;
    if (has_run || (work->calls && work->calls != last.calls)) break;
    idle = last.at - work->at;
  }
  return last.at == 0 ? std::nullopt : std::optional(idle);
}

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

bool ends_by_itself(const Facts& facts, const ThreadFacts& thread) {
  const auto goes_on_soon = [&](const ThreadFacts& each) {
    const bool polls_for_long = idle_for(facts, each).value_or(0) >= kLongRest;
    return gets_data(facts, each) || (sleeps_for_a_while(facts, each) && !polls_for_long);
  };
  if (goes_on_soon(thread)) return true;
  const std::vector<size_t> holders = holders_of(facts, thread);
  return !holders.empty() && std::ranges::all_of(holders, [&](size_t each) {
    return goes_on_soon(facts.threads[each]);
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
