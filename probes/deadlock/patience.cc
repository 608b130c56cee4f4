#include "probes/deadlock/patience.h"

#include <sys/wait.h>

#include <algorithm>
#include <limits>
#include <ranges>

#include "lib/base/units.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

// The wait of its main thread, where it ended by that.
std::optional<Patience> of_process(const Run& run, const ProcessSnapshot& process,
                                   std::string_view machine) {
  constexpr int32_t kPollOfTorch = 5000;  // ms: MP_STATUS_CHECK_INTERVAL
  constexpr BootNs kCleanUp = 10 * kSecond;
  const ProcessInfo* info = run.find_process(process.key);
  const ProcessExit* exit = run.find_exit(process.key);
  const bool failed = exit != nullptr && exit->wait_status && WIFEXITED(*exit->wait_status) &&
                      *exit->wait_status != 0;
  if (!failed || info == nullptr || info->role != Role::kTrainer || process.threads.empty())
    return std::nullopt;
  const ThreadSnapshot& main = process.threads.front();
  const int32_t timeout_ms = poll_timeout_ms(main.wait, machine).value_or(0);
  if (timeout_ms <= kPollOfTorch || main.blocked_since == 0) return std::nullopt;
  const BootNs timeout = timeout_ms * kMillisecond;
  const BootNs over_at = main.blocked_since + timeout;
  if (exit->at < over_at || exit->at > over_at + kCleanUp) return std::nullopt;
  return Patience{.trainer = process.key,
                  .timeout = timeout,
                  .over_at = over_at,
                  .exit_code = WEXITSTATUS(*exit->wait_status)};
}

// Of the default group: further ones that wait as long, or longer, are not told. 0: not known.
BootNs timeout_of_group(const Run& run, const ProcessKey& rank) {
  BootNs timeout = 0;
  for (const StartEvent& event : run.start_events) {
    if (event.process != rank || event.kind != StartEventKind::kWaitsAtMost) continue;
    if (timeout != 0) return 0;  // which group has the shorter one is not told
    timeout = static_cast<BootNs>(event.seconds.value_or(0) * static_cast<double>(kSecond));
  }
  return timeout;
}

// What it has asked for last in the default group; null: it waits for nothing there.
const FlightGroup* pending_in_default(const TreeSnapshot& look, const ProcessKey& rank) {
  const FlightRecord* record = live_record(look, rank);
  if (record == nullptr) return nullptr;
  const auto found = std::ranges::find_if(record->groups, [](const FlightGroup& group) {
    return group.name == "0" && group.is_pending();
  });
  return found == record->groups.end() ? nullptr : &*found;
}

std::optional<GroupEnd> end_of_group(const Run& run, const ProcessKey& rank) {
  const BootNs timeout = timeout_of_group(run, rank);
  const TreeSnapshot& last = run.snapshots.back();
  const FlightGroup* pending = timeout == 0 ? nullptr : pending_in_default(last, rank);
  if (pending == nullptr) return std::nullopt;
  const auto first = std::ranges::find_if(run.snapshots, [&](const TreeSnapshot& look) {
    const FlightGroup* then = pending_in_default(look, rank);
    return then != nullptr && then->completed == pending->completed;
  });
  const BootNs at = first->at + timeout;
  if (at > last.at) return std::nullopt;
  return GroupEnd{.since = first->at, .at = at};
}

}  // namespace

const FlightRecord* live_record(const TreeSnapshot& snapshot, const ProcessKey& key) {
  const auto process = std::ranges::find(snapshot.processes, key, &ProcessSnapshot::key);
  if (process == snapshot.processes.end()) return nullptr;
  const std::optional<FlightRecord>& flight = process->flight;
  return flight && flight->is_live ? &*flight : nullptr;
}

std::optional<GroupEnd> ended_group(const Run& run) {
  std::optional<GroupEnd> first;
  if (run.snapshots.empty()) return first;
  for (const ProcessSnapshot& process : run.snapshots.back().processes) {
    const auto end = end_of_group(run, process.key);
    if (end && (!first || end->at < first->at)) first = end;
  }
  return first;
}

std::optional<Patience> ended_patience(const Run& run, std::string_view machine) {
  BootNs next_look = std::numeric_limits<BootNs>::max();
  for (const TreeSnapshot& tree : run.snapshots | std::views::reverse) {
    for (const ProcessSnapshot& process : tree.processes) {
      const auto patience = of_process(run, process, machine);
      // Else it got what it waited for.
      if (patience && patience->over_at <= next_look) return patience;
    }
    next_look = tree.at;
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::deadlock
