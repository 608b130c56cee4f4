#include "probes/facts/rises.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "probes/facts/trend.h"

namespace dlprobe {
namespace {

using Points = std::vector<SeriesPoint>;

enum class What { kDescriptors, kMappings, kThreads, kMemory };

constexpr double kLeastCount = 6;
constexpr double kLeastBytes = 6.0 * (1 << 20);

// Whether the least of each third lies above the least of the one before, by enough in all.
bool rises_by(const Points& points, double least) {
  constexpr size_t kThirds = 3;
  if (points.size() < kThirds) return false;
  std::array<double, kThirds> lowest{};
  lowest.fill(std::numeric_limits<double>::max());
  // Of the points, not of the time: of that, a look at many threads takes a part.
  for (size_t i = 0; i < points.size(); ++i) {
    double& low = lowest.at(i * kThirds / points.size());
    low = std::min(low, points[i].value);
  }
  const double step = least / static_cast<double>(kThirds + 1);
  return lowest[2] - lowest[0] >= least / 2 && lowest[1] - lowest[0] >= step / 2 &&
         lowest[2] - lowest[1] >= step / 2 && points.back().value - points.front().value >= least;
}

// In the kernel, where files are made: others of the machine make some, too.
bool worked_in_kernel(const Run& run) {
  return !run.samples.empty() &&
         std::ranges::any_of(run.samples.back().processes, [&](const ProcessSample& last) {
           const auto& before = run.samples.front().processes;
           const auto first = std::ranges::find(before, last.key, &ProcessSample::key);
           return first == before.end() || last.stime_ticks > first->stime_ticks;
         });
}

}  // namespace

bool rises(const Run& run) {
  std::map<std::pair<ProcessKey, What>, Points> of_processes;
  Points processes;
  for (const Sample& sample : run.samples) {
    processes.push_back({.at = sample.at, .value = static_cast<double>(sample.processes.size())});
    for (const ProcessSample& each : sample.processes) {
      const auto add = [&](What what, uint64_t value) {
        of_processes[{each.key, what}].push_back(
            {.at = sample.at, .value = static_cast<double>(value)});
      };
      add(What::kThreads, static_cast<uint64_t>(std::max(each.threads, 0)));
      if (each.fd_count && *each.fd_count) add(What::kDescriptors, **each.fd_count);
      if (each.map_count && *each.map_count) add(What::kMappings, **each.map_count);
      if (each.rss_bytes && each.rss_shared_bytes)
        add(What::kMemory, *each.rss_bytes - std::min(*each.rss_bytes, *each.rss_shared_bytes));
    }
  }
  std::map<uint64_t, Points> files;  // by mount
  for (const ShmUse& use : run.shm_use)
    files[use.device].push_back({.at = use.at, .value = static_cast<double>(use.inodes_used)});
  return rises_by(processes, kLeastCount) ||
         std::ranges::any_of(of_processes,
                             [](const auto& series) {
                               const bool is_memory = series.first.second == What::kMemory;
                               return rises_by(series.second,
                                               is_memory ? kLeastBytes : kLeastCount);
                             }) ||
         (worked_in_kernel(run) && std::ranges::any_of(files, [](const auto& series) {
            return rises_by(series.second, kLeastCount);
          }));
}

}  // namespace dlprobe
