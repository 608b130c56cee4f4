// Which process had grown, all the time that it was seen, until memory was refused or its end.

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/grown_containers.h"
#include "probes/facts/trend.h"

namespace dlprobe::probes::exits {
namespace {

using Grown = std::pair<ProcessKey, Growth>;

std::optional<Growth> growth_until(const Run& run, const ProcessKey& key, BootNs end,
                                   double least) {
  std::vector<SeriesPoint> memory;
  for (const Sample& sample : run.samples) {
    const auto each = std::ranges::find(sample.processes, key, &ProcessSample::key);
    if (sample.at > end || each == sample.processes.end() || !each->rss_bytes ||
        !each->rss_shared_bytes)
      continue;
    const uint64_t own = *each->rss_bytes - std::min(*each->rss_bytes, *each->rss_shared_bytes);
    memory.push_back({.at = sample.at, .value = static_cast<double>(own)});
  }
  return find_growth_of_life(memory, least);
}

// Of its own limit, the cgroup or the machine, whichever had no more.
double full_memory_of(const Finding& finding) {
  const auto full = std::ranges::find_if(finding.evidence, [](const Evidence& each) {
    return each.name == "memory_limit" || each.name == "memory_total";
  });
  return full == finding.evidence.end() ? 0 : static_cast<double>(std::get<int64_t>(full->value));
}

// Of those that are named, or else of all where another one may have filled what they share.
std::optional<Grown> fastest_grown(const Finding& finding, const Run& run, BootNs end,
                                   double least) {
  std::optional<Grown> named;
  std::optional<Grown> fastest;
  for (const ProcessInfo& process : run.processes) {
    const auto growth = growth_until(run, process.key, end, least);
    if (!growth) continue;
    const bool is_named = std::ranges::count(finding.processes, process.key) > 0;
    auto& best = is_named ? named : fastest;
    if (!best || growth->per_second > best->second.per_second) best = Grown(process.key, *growth);
  }
  const bool is_own = finding.code == FindingCode::kMemoryLimitTooLow;
  return named || is_own ? named : fastest;
}

}  // namespace

void add_growth(Finding& finding, const Run& run) {
  constexpr double kLeast = 64.0 * (1 << 20);
  constexpr double kLeastShare = 0.125;
  const double least = std::max(kLeast, kLeastShare * full_memory_of(finding));
  const auto grown = fastest_grown(finding, run, finding.first_seen.value_or(0), least);
  if (!grown) return;
  const auto& [key, growth] = *grown;
  const OwnWords rate = format_bytes(static_cast<uint64_t>(growth.per_second)) + "/s";
  const bool is_only_one = finding.processes == std::vector{key};
  finding.message += say("; {} had grown by {} for the {} before",
                         is_only_one ? OwnWords("it") : describe(run, key), rate,
                         format_duration(std::chrono::nanoseconds(growth.to - growth.from)));
  finding.prove(text_fact("grew_by", rate, "/proc/PID/statm: resident less shared", growth.to));
  name_grown_container(finding, run,
                       {.process = key,
                        .from = growth.from,
                        .to = growth.to,
                        .bytes_per_second = growth.per_second});
  finding.remedies.insert(
      finding.remedies.begin(),
      {.title = "Find what it keeps: an unbounded cache, a growing list. Where it must keep all "
                "of its data, it needs a higher limit",
       .commands = {"@functools.lru_cache(maxsize=1000)  # not: maxsize=None"},
       .verify = "dlprobe memory -- COMMAND"});
}

}  // namespace dlprobe::probes::exits
