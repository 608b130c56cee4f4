// A loop that asks memory for what a process was to write that has failed: DLP0312.

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <ranges>

#include "lib/base/units.h"
#include "lib/model/run_words.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/facts.h"

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

// A trainer that waits, for the end of its processes or for what they make.
bool trainers_wait(const Facts& facts) {
  return std::ranges::all_of(facts.threads, [](const ThreadFacts& each) {
    return !each.is_main() || each.role() != Role::kTrainer || each.still || each.waits_again;
  });
}

bool computes_all_along(const ThreadFacts& thread) {
  constexpr double kNearlyAll = 0.9;  // of a core
  return thread.is_main() && thread.role() == Role::kWorker && thread.looks.size() > 1 &&
         lasts_long(thread, thread.looks.size()) && thread.busy_share >= kNearlyAll &&
         user_frame(*thread.thread) != nullptr;
}

}  // namespace

std::optional<RootCause> computes_since_failure(const Facts& facts) {
  constexpr BootNs kLongLoop = 10 * kSecond;
  const ProcessExit* failed = failed_worker(facts);
  if (failed == nullptr || !trainers_wait(facts)) return std::nullopt;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (!computes_all_along(thread)) continue;
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
    finding.remedies.push_back(
        {.title = "Read why the other one failed. Give the loop an end: ask whether it lives",
         .commands = {"if not producer.is_alive(): raise RuntimeError('the producer has ended')"},
         .verify = "dlprobe stacks " + own(thread.process->key.pid)});
    return RootCause{std::move(finding), i};
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::deadlock
