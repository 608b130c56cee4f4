#include "probes/facts/vain_starts.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <ranges>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

constexpr size_t kNoAccident = 10;
constexpr BootNs kToBeSeen = kSecond;

// The word of a worker that no task of a pool is done by: it could not begin, or left in a task.
bool is_in_vain(const StartEvent& event) {
  return (event.kind == StartEventKind::kFailed && event.ended == Ended::kInitializer) ||
         (event.kind == StartEventKind::kExits && event.ended == Ended::kTask && event.count != 0);
}

bool has_crashed(const ProcessExit& exit) {
  constexpr std::array kCrashes = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
  return exit.wait_status && WIFSIGNALED(*exit.wait_status) &&
         std::ranges::count(kCrashes, WTERMSIG(*exit.wait_status)) > 0;
}

bool has_failed(const ProcessExit& exit) {
  return exit.wait_status &&
         (has_crashed(exit) || (WIFEXITED(*exit.wait_status) && *exit.wait_status != 0));
}

/// One end that no task was done by.
struct VainEnd {
  ProcessKey process;
  BootNs at = 0;
  const StartEvent* word = nullptr;
};

std::vector<VainEnd> vain_ends(const Run& run) {
  std::vector<VainEnd> ends;
  for (const StartEvent& event : run.start_events)
    if (is_in_vain(event)) ends.push_back({event.process, event.at, &event});
  for (const ProcessExit& exit : run.exits)
    if (has_crashed(exit)) ends.push_back({exit.key, exit.at});
  std::ranges::stable_sort(ends, {}, &VainEnd::at);
  return ends;
}

// Who started the latest one of which that is known: some end before anybody looks at them, and
// some outlive who started them.
const ProcessInfo* owner_of_pool(const Run& run, const std::vector<VainEnd>& ends) {
  for (const VainEnd& end : ends | std::views::reverse) {
    const ProcessInfo* one = run.find_process(end.process);
    if (one == nullptr || one->role != Role::kWorker) continue;
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
  std::optional<BootNs> first_failure;
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
    if (exit != nullptr && has_failed(*exit)) {
      fates.failed.push_back(process.key);
      lives.push_back(exit->at - process.seen_at);
      fates.first_failure = std::min(fates.first_failure.value_or(exit->at), exit->at);
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

// When the process ended, or the last moment that is known of.
BootNs end_of(const Run& run, const ProcessKey& key) {
  const ProcessExit* exit = run.find_exit(key);
  return exit != nullptr ? exit->at : last_word(run);
}

}  // namespace

std::optional<VainStarts> vain_starts(const Run& run) {
  constexpr BootNs kSurelyPast = 5 * kSecond;
  const std::vector<VainEnd> ends = vain_ends(run);
  const ProcessInfo* owner = ends.size() < kNoAccident ? nullptr : owner_of_pool(run, ends);
  if (owner == nullptr) return std::nullopt;
  const BootNs end = end_of(run, owner->key);
  Fates fates = fates_of_workers(run, owner->key, end);
  const auto first =
      std::ranges::find_if(ends, [&](const VainEnd& each) { return each.at > fates.last_success; });
  if (first == ends.end() || fates.failed.size() < kNoAccident) return std::nullopt;
  // Who lives on has its initializer behind it: by then there would be one.
  const BootNs past_after = 3 * fates.usual_life + kSurelyPast;
  if (fates.oldest_age > past_after || end - first->at < past_after + kToBeSeen)
    return std::nullopt;
  const bool goes_on = fates.last_failure >= end - 2 * fates.usual_life - kToBeSeen;
  if (run.find_exit(owner->key) == nullptr && !goes_on) return std::nullopt;
  return VainStarts{.first = first->word,
                    .since = first->at,
                    .trainer = owner->key,
                    .workers = std::move(fates.failed)};
}

std::optional<FailingWorkers> failing_workers(const Run& run, const ProcessKey& trainer) {
  const Fates fates = fates_of_workers(run, trainer, end_of(run, trainer));
  const bool is_over =
      fates.last_success > 0 || fates.oldest_age > 3 * fates.usual_life + kToBeSeen;
  if (fates.failed.size() < kNoAccident || is_over) return std::nullopt;
  return FailingWorkers{.count = fates.failed.size(),
                        .first = fates.first_failure.value_or(0),
                        .last = fates.last_failure};
}

namespace {

// Several codes may be answers.
bool end_alike(const Run& run, const ProcessKey& trainer) {
  std::optional<int32_t> first;
  return std::ranges::all_of(run.exits, [&](const ProcessExit& exit) {
    const ProcessInfo* info = run.find_process(exit.key);
    const bool is_it = info != nullptr && info->ppid == trainer.pid && has_failed(exit);
    if (is_it && !first) first = *exit.wait_status;
    return !is_it || *exit.wait_status == *first;
  });
}

}  // namespace

std::optional<BootNs> in_vain_since(const Run& run) {
  if (const auto vain = vain_starts(run)) return vain->since;
  const BootNs now = last_word(run);
  for (const ProcessInfo& process : run.processes) {
    if (process.role != Role::kTrainer || run.find_exit(process.key) != nullptr) continue;
    const auto failing = failing_workers(run, process.key);
    if (!end_alike(run, process.key)) continue;
    const BootNs pause = failing ? (failing->last - failing->first) / 5 : 0;
    if (failing && failing->last + std::max(pause, kToBeSeen) >= now) return failing->first;
  }
  return std::nullopt;
}

void make_error_of_vain_starts(const Run& run, const VainStarts& vain, Finding& finding) {
  const ProcessExit* end = run.find_exit(vain.trainer);
  const bool ended_well = end != nullptr && end->wait_status && *end->wait_status == 0;
  const bool is_it = std::ranges::any_of(finding.processes, [&](const ProcessKey& key) {
    return std::ranges::count(vain.workers, key) > 0;
  });
  if (ended_well || !is_it) return;
  finding.severity = Severity::kError;
  finding.advise("Let the program give up when a pool breaks, not take a new one each time", {},
                 "dlprobe run -- COMMAND");
}

}  // namespace dlprobe
