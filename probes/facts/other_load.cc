#include "probes/facts/other_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// Where a CPU is left over nobody has to wait for one.
constexpr double kAllBusy = 0.9;
// Of the CPUs, for others: less would be lost in the noise.
constexpr double kWorthTelling = 0.2;
// The ticks of shorter ones are too coarse.
constexpr BootNs kShortestRun = kSecond;

uint64_t cpu_ticks(const ProcessSample& process) {
  return process.utime_ticks + process.stime_ticks;
}

// How many CPUs its own processes had, on average.
double own_cpus(const Run& run, uint64_t ticks_per_second) {
  std::map<ProcessKey, std::pair<uint64_t, uint64_t>> used;
  for (const ProcessSample& process : run.samples.front().processes)
    used[process.key] = {cpu_ticks(process), cpu_ticks(process)};
  for (const Sample& sample : run.samples) {
    // One that comes later had none before.
    for (const ProcessSample& process : sample.processes)
      used[process.key].second = std::max(used[process.key].second, cpu_ticks(process));
  }
  uint64_t ticks = 0;
  for (const auto& [key, at] : used)
    ticks += at.second - at.first;
  const auto span = static_cast<double>(run.samples.back().at - run.samples.front().at) / 1e9;
  return static_cast<double>(ticks) / static_cast<double>(ticks_per_second) / span;
}

double cpus_of_others(const Run& run, const HostFacts& host) {
  if (!run.end || !run.end->busy_cpus || host.cpus <= 0 || host.ticks_per_second == 0) return 0;
  const bool is_long =
      !run.samples.empty() && run.samples.back().at - run.samples.front().at >= kShortestRun;
  if (!is_long || *run.end->busy_cpus < kAllBusy * host.cpus) return 0;
  return *run.end->busy_cpus - own_cpus(run, host.ticks_per_second);
}

}  // namespace

std::optional<Gap> gap_of_other_load(const RecordingView& recording) {
  const HostFacts& host = recording.header.host;
  double most = 0;
  for (const Run& run : recording.runs)
    most = std::max(most, cpus_of_others(run, host));
  if (most == 0 || most < kWorthTelling * host.cpus) return std::nullopt;
  return Gap{.what = "the speed on an idle machine",
             .why = own(fmt::format("other processes kept {:.1f} of {} CPUs busy meanwhile", most,
                                    host.cpus)),
             .effect = "times are upper bounds, speeds lower ones",
             .remedy = "measure again when the machine is idle"};
}

}  // namespace dlprobe
