#include "lib/session/containment.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "lib/base/units.h"

namespace dlprobe {

Containment::Containment(const Trial& trial, RunContext& context)
    : trial_(trial), context_(context), priority_before_(::getpriority(PRIO_PROCESS, 0)) {
  constexpr int kBeforeOthers = -10;
  ::setpriority(PRIO_PROCESS, 0, std::min(priority_before_, kBeforeOthers));
}

Containment::~Containment() {
  ::setpriority(PRIO_PROCESS, 0, priority_before_);
}

void Containment::put(CollectOptions& options) {
  options.discover_every = std::chrono::milliseconds(1);
}

std::optional<OwnWords> Containment::why_break_off(size_t living) const {
  const Run& run = context_.recorder.current_run();
  if (living > context_.judge.allowed_processes(run))
    return tell(kTooManyProcesses, "had " + own(living) + " processes");
  const size_t generations = context_.judge.generations(run);
  if (generations > static_cast<size_t>(trial_.most_depth) + 1)
    return tell(kTooDeep, "had " + own(generations) + " generations of the same process");
  return why_nothing_more_comes(run);
}

OwnWords Containment::tell(std::string_view kind, OwnWords text) const {
  context_.recorder.add(Event{.at = context_.now(), .kind = std::string(kind), .text = text});
  return text;
}

// A child died of what it was to import or to find, and its parent waits for it, or goes on
// starting others.
std::optional<OwnWords> Containment::why_nothing_more_comes(const Run& run) const {
  constexpr BootNs kTimeToGiveUp = 5 * kSecond;
  constexpr size_t kManyRefusals = 20;
  // A pool starts another for each that fails.
  constexpr size_t kManyFailures = 60;
  const auto failures = static_cast<size_t>(std::ranges::count_if(
      run.exits, [](const ProcessExit& exit) { return exit.wait_status.value_or(0) > 0xff; }));
  if (failures > kManyFailures)
    return "had " + own(failures) + " processes that failed, one after another";
  size_t refusals = 0;
  size_t of_any_kind = 0;
  BootNs first = 0;
  for (const StartEvent& event : run.start_events) {
    if (event.kind == StartEventKind::kRefused && ++of_any_kind > kManyRefusals)
      return "was refused " + own(of_any_kind) + " processes";
    const bool in_child = event.cause == StartRefusal::kBootstrapping ||
                          event.cause == StartRefusal::kNotFoundThere ||
                          event.kind == StartEventKind::kMainNotImported;
    if (!in_child) continue;
    if (refusals++ == 0) first = event.at;
  }
  if (refusals == 0) return std::nullopt;
  const BootNs since = context_.now() - first;
  if (since <= kTimeToGiveUp && refusals <= kManyRefusals) return std::nullopt;
  return "went on for " + format_duration(std::chrono::nanoseconds(since)) + " after " +
         own(refusals) + " of its processes could not start";
}

}  // namespace dlprobe
