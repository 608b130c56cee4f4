#include "probes/facts/vain_starts.h"

#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

constexpr size_t kNoAccident = 10;
constexpr BootNs kToBeSeen = kSecond;

bool is_failed_initializer(const StartEvent& event) {
  return event.kind == StartEventKind::kFailed && event.ended == Ended::kInitializer;
}

// Who started the latest one of which that is known: some end before anybody looks at them, and
// some outlive who started them.
const ProcessInfo* owner_of_pool(const Run& run) {
  for (const StartEvent& event : run.start_events | std::views::reverse) {
    const ProcessInfo* one =
        is_failed_initializer(event) ? run.find_process(event.process) : nullptr;
    if (one == nullptr) continue;
    const auto owner = std::ranges::find(run.processes, one->ppid,
                                         [](const ProcessInfo& each) { return each.key.pid; });
    if (owner != run.processes.end()) return &*owner;
  }
  return nullptr;
}

BootNs last_word(const Run& run) {
  BootNs last = run.end ? run.end->at : 0;
  if (!run.samples.empty()) last = std::max(last, run.samples.back().at);
  if (!run.exits.empty()) last = std::max(last, run.exits.back().at);
  return last;
}

/// How the workers of one pool fared.
struct Fates {
  std::vector<ProcessKey> failed;
  BootNs usual_life = 0;  ///< of one that failed: the median, for some were seen to end late
  BootNs last_failure = 0;
  BootNs last_success = 0;  ///< when one ended well; 0: none did
  BootNs oldest_age = 0;    ///< of those that lived at the end
};

// Workers that are left without their trainer end well, and are often seen to end before it.
Fates fates_of_workers(const Run& run, const ProcessKey& trainer, BootNs end) {
  Fates fates;
  std::vector<BootNs> lives;
  std::map<ProcessKey, const ProcessExit*> exits;
  for (const ProcessExit& exit : run.exits)
    exits[exit.key] = &exit;
  for (const ProcessInfo& process : run.processes) {
    if (process.ppid != trainer.pid || process.role != Role::kWorker) continue;
    const auto found = exits.find(process.key);
    const ProcessExit* exit = found == exits.end() ? nullptr : found->second;
    const bool has_failed = exit != nullptr && exit->wait_status && WIFEXITED(*exit->wait_status) &&
                            *exit->wait_status != 0;
    if (has_failed) {
      fates.failed.push_back(process.key);
      lives.push_back(exit->at - process.seen_at);
      fates.last_failure = std::max(fates.last_failure, exit->at);
    } else if (exit == nullptr || exit->at > end - kToBeSeen) {
      fates.oldest_age = std::max(fates.oldest_age, end - process.seen_at);
    } else if (exit->wait_status && *exit->wait_status == 0) {
      fates.last_success = std::max(fates.last_success, exit->at);
    }
  }
  if (lives.empty()) return fates;
  const auto middle = lives.begin() + static_cast<std::ptrdiff_t>(lives.size() / 2);
  std::ranges::nth_element(lives, middle);
  fates.usual_life = *middle;
  return fates;
}

}  // namespace

std::optional<VainStarts> vain_starts(const Run& run) {
  constexpr BootNs kSurelyPast = 5 * kSecond;
  const auto told = std::ranges::count_if(run.start_events, is_failed_initializer);
  const ProcessInfo* owner = std::cmp_less(told, kNoAccident) ? nullptr : owner_of_pool(run);
  if (owner == nullptr) return std::nullopt;
  const ProcessExit* exit = run.find_exit(owner->key);
  const BootNs end = exit != nullptr ? exit->at : last_word(run);
  Fates fates = fates_of_workers(run, owner->key, end);
  const auto first = std::ranges::find_if(run.start_events, [&](const StartEvent& event) {
    return is_failed_initializer(event) && event.at > fates.last_success;
  });
  if (first == run.start_events.end() || fates.failed.size() < kNoAccident) return std::nullopt;
  // Who lives on has its initializer behind it: by then there would be one.
  const BootNs past_after = 3 * fates.usual_life + kSurelyPast;
  if (fates.oldest_age > past_after || end - first->at < past_after + kToBeSeen)
    return std::nullopt;
  const bool goes_on = fates.last_failure >= end - 2 * fates.usual_life - kToBeSeen;
  if (exit == nullptr && !goes_on) return std::nullopt;
  return VainStarts{.first = &*first, .trainer = owner->key, .workers = std::move(fates.failed)};
}

}  // namespace dlprobe
