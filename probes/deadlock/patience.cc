#include "probes/deadlock/patience.h"

#include <sys/wait.h>

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

}  // namespace

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
