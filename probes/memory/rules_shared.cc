// DLP0505 worker-memory-leak of shared memory.

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "lib/base/units.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"
#include "probes/memory/remedies.h"
#include "probes/memory/rules.h"

namespace dlprobe::probes::memory {
namespace {

constexpr double kMebi = 1 << 20;
// What a process must have of the growth for it to be its.
constexpr double kExplained = 0.7;

struct SharedMemory {
  std::vector<SeriesPoint> series;
  Message source;
};

// Of the job's group, where that is not everybody's; else of the machine.
SharedMemory shared_memory(const Facts& facts) {
  SharedMemory group;
  uint64_t most = 0;
  for (const auto& [at, memory] : facts.cgroup_looks) {
    if (is_of_whole_machine(*memory)) continue;
    group.series.push_back({.at = at, .value = static_cast<double>(memory->shmem_bytes)});
    group.source = "shmem in memory.stat of cgroup " + as_path(memory->path);
    most = std::max(most, memory->shmem_bytes);
  }
  if (most > 0) return group;
  SharedMemory host = {.source = "Shmem of /proc/meminfo"};
  for (const auto& [at, memory] : facts.host_looks)
    host.series.push_back({.at = at, .value = static_cast<double>(memory->shmem_bytes)});
  return host;
}

// What each process of the job holds in the mounts of /dev/shm, at the first and at the last look
// in a time.
struct Held {
  uint64_t bytes = 0;
  uint64_t segments = 0;
};
struct HeldAt {
  BootNs at = 0;
  double scale = 1;  // from what was listed to all
  std::map<ProcessKey, Held> of;
};

// Where there were too many segments to list each, the rest is taken to be held as those are.
double all_of_listed(const ShmLedger& ledger) {
  double listed = 0;
  for (const ShmSegment& segment : ledger.segments)
    listed += static_cast<double>(segment.taken_bytes());
  return listed > 0 ? 1 + static_cast<double>(ledger.omitted_bytes) / listed : 1;
}

HeldAt held_at(const ShmLedger& ledger) {
  HeldAt held = {.at = ledger.at, .scale = all_of_listed(ledger)};
  for (const ShmSegment& segment : ledger.segments) {
    for (const SegmentHolder& holder : segment.holders) {
      const bool only_knows_it = holder.fds == 0 && holder.maps == 0;  // a resource tracker
      if (!holder.in_tree || only_knows_it) continue;
      Held& of_process = held.of[holder.key];
      of_process.bytes += segment.taken_bytes();
      ++of_process.segments;
    }
  }
  return held;
}

struct HeldSpan {
  HeldAt first;
  HeldAt last;
};

// By device, where two looks are far enough apart.
std::vector<HeldSpan> held_spans(const Run& run, BootNs from, BootNs to) {
  constexpr BootNs kShortest = 4 * kSecond;
  std::map<uint64_t, std::pair<const ShmLedger*, const ShmLedger*>> ends;
  for (const ShmLedger& ledger : run.ledgers) {
    if (ledger.at < from || ledger.at > to) continue;
    const auto [slot, is_new] = ends.try_emplace(ledger.device, &ledger, &ledger);
    slot->second.second = &ledger;
  }
  std::vector<HeldSpan> spans;
  for (const auto& [device, looks] : ends) {
    if (looks.second->at - looks.first->at < kShortest) continue;
    spans.push_back({.first = held_at(*looks.first), .last = held_at(*looks.second)});
  }
  return spans;
}

double per_second(double bytes, BootNs time) {
  return time > 0 ? bytes / (static_cast<double>(time) / kSecond) : 0;
}

double held_growth(const std::vector<HeldSpan>& spans, const ProcessKey& key) {
  double sum = 0;
  for (const HeldSpan& span : spans) {
    const auto bytes = [&](const HeldAt& held) {
      const auto slot = held.of.find(key);
      return slot == held.of.end() ? 0.0 : held.scale * static_cast<double>(slot->second.bytes);
    };
    sum += per_second(bytes(span.last) - bytes(span.first), span.last.at - span.first.at);
  }
  return sum;
}

// Mapped files count as shared memory, too: one that maps far more than grew tells nothing.
double resident_growth(const Series& process, const Growth& growth) {
  constexpr double kFarMore = 1.5;
  const double rate =
      per_second(value_at(process.shared, growth.to) - value_at(process.shared, growth.from),
                 growth.to - growth.from);
  return rate > kFarMore * growth.per_second ? 0 : rate;
}

struct SharedGrower {
  const Series* memory = nullptr;
  double per_second = 0;
};

// Whose growth it is: one that has most of it, else all of a role that have it together; none where
// it is not the job's own.
std::vector<SharedGrower> growers_of(const Facts& facts, const Growth& growth,
                                     const std::vector<HeldSpan>& spans) {
  constexpr double kPart = 0.05;
  constexpr BootNs kBetweenLooks = 3 * kSecond;
  std::vector<SharedGrower> all;
  for (const Series& each : facts.processes) {
    // Who ended before the growth did let go of what it had, which is none of it.
    if (each.first_at > growth.to || each.last_at + kBetweenLooks < growth.to) continue;
    const double rate = std::max(resident_growth(each, growth), held_growth(spans, each.info->key));
    if (rate >= kPart * growth.per_second) all.push_back({.memory = &each, .per_second = rate});
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &SharedGrower::per_second);
  if (all.empty() || all.front().per_second >= kExplained * growth.per_second) {
    all.resize(std::min<size_t>(all.size(), 1));
    return all;
  }
  for (const Role role : {Role::kWorker, Role::kOther}) {
    std::vector<SharedGrower> some;
    double sum = 0;
    for (const SharedGrower& each : all) {
      if (each.memory->info->role != role) continue;
      some.push_back(each);
      sum += each.per_second;
    }
    if (sum >= kExplained * growth.per_second) return some;
  }
  return {};
}

// Up to when it may have grown: to the end of what was seen, or of the job's work, or to the end of
// a process whose part of it went away with it. The latest first.
std::vector<BootNs> ends_of_growth(const Facts& facts, BootNs last) {
  constexpr double kLeast = 8 * kMebi;
  constexpr size_t kMost = 16;
  const bool has_ended =
      facts.trainer != nullptr && facts.run->find_exit(facts.trainer->key) != nullptr;
  std::set<BootNs, std::greater<>> ends = {has_ended ? last_at_work(*facts.run) : last};
  for (const Series& each : facts.processes) {
    if (facts.run->find_exit(each.info->key) == nullptr) continue;
    const auto most = std::ranges::max_element(each.shared, {}, &SeriesPoint::value);
    if (most->value - each.shared.front().value >= kLeast) ends.insert(most->at);
  }
  std::vector<BootNs> latest;
  for (const BootNs end : ends | std::views::take(kMost))
    latest.push_back(end);
  return latest;
}

OwnWords who_leaks(const Facts& facts, const std::vector<SharedGrower>& some) {
  const ProcessInfo& first = *some.front().memory->info;
  if (some.size() == 1) {
    return (first.role == Role::kTrainer ? "trainer " + own(first.key.pid)
                                         : describe(*facts.run, first.key)) +
           " leaks";
  }
  return counted(some.size(), first.role == Role::kWorker ? "worker" : "process") + " leak";
}

void add_holders(Finding& finding, const std::vector<SharedGrower>& some,
                 const std::vector<HeldSpan>& spans) {
  for (const SharedGrower& each : some) {
    const ProcessKey& key = each.memory->info->key;
    finding.processes.push_back(key);
    for (const HeldSpan& span : spans) {
      const auto held = span.last.of.find(key);
      if (held == span.last.of.end()) continue;
      finding.prove(text_fact("held_by_" + own(key.pid),
                              (span.last.scale > 1 ? "at least " : "") +
                                  format_bytes(held->second.bytes) + " in " +
                                  counted(held->second.segments, "segment"),
                              "stat of /proc/PID/fd, maps", span.last.at));
    }
  }
}

// One whose own memory grew by more meanwhile: what keeps that is what to look for first, though it
// may have come to an end by now.
void add_own_growth(Finding& finding, const Run& run, const Series& process, const Growth& growth) {
  const double rate =
      per_second(value_at(process.anon, growth.to) - value_at(process.anon, growth.from),
                 growth.to - growth.from);
  if (rate < growth.per_second) return;
  finding.message += "; its own memory grew by " + rate_text(rate) + " meanwhile";
  std::vector<Remedy> first = remedies_for_leak(run, process.info->role != Role::kTrainer);
  finding.remedies.insert(finding.remedies.begin(), first.begin(), first.end());
}

// What grew up to a moment, and whose it is.
struct SharedGrowth {
  BootNs end = 0;
  Growth growth;
  std::vector<SharedGrower> some;
  std::vector<HeldSpan> spans;
};

// Seconds tell nothing of what all have together, which is looked at a few times only: one process
// that grows along a line does, where the memory of all rose as it did.
std::optional<SharedGrowth> growth_of_one(const Facts& facts, const SharedMemory& memory) {
  for (const Series& each : facts.processes) {
    auto growth = find_growth_of_process(facts, each, each.shared);
    if (!growth) continue;
    const auto first = std::ranges::lower_bound(
        memory.series, std::max(growth->from, each.first_at), {}, &SeriesPoint::at);
    const auto last = std::ranges::upper_bound(memory.series, growth->to, {}, &SeriesPoint::at);
    if (last - first < 2) continue;
    const SeriesPoint& end = *(last - 1);
    const double rise = end.value - first->value;
    const double own = value_at(each.shared, end.at) - value_at(each.shared, first->at);
    if (rise < kExplained * own || own < kExplained * rise) continue;
    SharedGrowth found = {.end = growth->to, .growth = *growth};
    found.spans = held_spans(*facts.run, growth->from, growth->to);
    found.some = {{.memory = &each, .per_second = growth->per_second}};
    return found;
  }
  return std::nullopt;
}

// CUDA's pinned memory, or a mapping that one shares with its children: no segment of /dev/shm.
bool is_in_segments(const SharedGrowth& found) {
  double in_segments = 0;
  double all = 0;
  for (const SharedGrower& each : found.some) {
    in_segments += held_growth(found.spans, each.memory->info->key);
    all += each.per_second;
  }
  return found.spans.empty() || in_segments >= all / 2;
}

Finding growth_finding(const Facts& facts, const SharedMemory& memory, const SharedGrowth& found) {
  const Growth& growth = found.growth;
  const std::vector<SharedGrower>& some = found.some;
  Finding finding = new_finding(FindingCode::kWorkerMemoryLeak, Confidence::kLikely);
  const Role role = some.front().memory->info->role;
  finding.message =
      who_leaks(facts, some) + " " + rate_text(growth.per_second) + " of shared memory";
  const bool in_segments = is_in_segments(found);
  if (!in_segments) finding.message += " (pinned, or a mapping of its own; not in /dev/shm)";
  finding.discriminator = std::string(to_string(role)) + "-in-shared-memory";
  set_growth(finding, growth, memory.source);
  double own = 0;
  for (const SharedGrower& each : some)
    own += each.per_second;
  Evidence part = bytes_fact("growth_of_these_processes", static_cast<uint64_t>(own),
                             "/proc/PID/statm: shared; or what they hold in /dev/shm");
  part.unit = "bytes/s";
  finding.prove(held_against(std::move(part), ">= 70 % of growth"));
  finding.prove(
      bytes_fact("shared_memory", static_cast<uint64_t>(growth.value), memory.source, growth.to));
  add_holders(finding, some, found.spans);
  set_outlook(finding, facts, growth, nearest_memory_limit(*facts.run, found.end));
  finding.message += what_brief_growth_leaves_open(growth, "a filling cache");
  finding.alternatives = {
      {.cause = "page cache and mapped files", .why_not = "they do not count as shared memory"},
      {.cause = "the shared memory of another job",
       .why_not = "the memory of these processes grew by as much"},
      {.cause = "prefetched batches, which reach a plateau",
       .why_not = "it grew as much in the second half of the time as in the first"}};
  finding.remedies = in_segments ? remedies_for_shared_growth(*facts.run, role == Role::kTrainer)
                                 : remedies_for_pinned_growth();
  if (some.size() == 1) add_own_growth(finding, *facts.run, *some.front().memory, growth);
  return finding;
}

}  // namespace

std::optional<Finding> shared_memory_growth(const Facts& facts) {
  const SharedMemory memory = shared_memory(facts);
  if (memory.series.empty()) return std::nullopt;
  for (const BootNs end : ends_of_growth(facts, memory.series.back().at)) {
    const auto after = std::ranges::upper_bound(memory.series, end, {}, &SeriesPoint::at);
    const auto growth = find_growth(std::span(memory.series.begin(), after));
    if (!growth) continue;
    SharedGrowth found = {
        .end = end, .growth = *growth, .spans = held_spans(*facts.run, growth->from, end)};
    found.some = growers_of(facts, *growth, found.spans);
    if (!found.some.empty()) return growth_finding(facts, memory, found);
  }
  const auto of_one = growth_of_one(facts, memory);
  return of_one ? std::optional(growth_finding(facts, memory, *of_one)) : std::nullopt;
}

}  // namespace dlprobe::probes::memory
