#include "lib/collect/snapshot/last_run.h"

#include "lib/base/units.h"
#include "lib/proc/sched_file.h"

namespace dlprobe {
namespace {

// A move to an idle CPU takes 0.1 ms, to a busy one a slice of whoever runs there.
constexpr BootNs kMostTime = 20 * kMillisecond;
// The clock of the scheduler is not corrected by NTP, which corrects by up to 500 ppm
// (adjtimex(2)): this much shorter has it been at most.
constexpr uint64_t kSlewPart = 2000;

Expected<uint64_t> read_sched(const Directory& folder, const std::string& task) {
  return chain(folder.read(task + "/sched"), parse_sched_file);
}

}  // namespace

std::optional<BootNs> LastRun::of(const Directory& process, const std::string& task, int32_t cpu) {
  const auto& clock = clock_of(cpu);
  if (!clock) return std::nullopt;
  const auto last = read_sched(process, task);
  if (!last || *last == 0 || *last >= clock->clock_ns) return std::nullopt;
  const uint64_t idle = clock->clock_ns - *last;
  return clock->at - static_cast<BootNs>(idle - idle / kSlewPart);
}

const std::optional<LastRun::CpuClock>& LastRun::clock_of(int32_t cpu) {
  const auto known = clocks_.find(cpu);
  if (known != clocks_.end()) return known->second;
  return clocks_.emplace(cpu, read_clock(cpu)).first->second;
}

std::optional<LastRun::CpuClock> LastRun::read_clock(int32_t cpu) {
  if (spent_ > kMostTime) return std::nullopt;
  const BootNs began = machine_.clock->now();
  CpuClock clock;
  const Status read = machine_.processes->run_on_cpu(cpu, [&] -> Status {
    DLP_TRY(clock.clock_ns, read_sched(*machine_.root, "proc/thread-self"));
    clock.at = machine_.clock->now();
    return {};
  });
  spent_ += machine_.clock->now() - began;
  if (!read) return std::nullopt;
  return clock;
}

}  // namespace dlprobe
