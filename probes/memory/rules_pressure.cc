// DLP0506 prefetch-backlog in shared memory, DLP0507 swap-thrash, DLP0508 memory-limit-too-low.

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/memory/remedies.h"
#include "probes/memory/rules.h"

namespace dlprobe::probes::memory {
namespace {

constexpr const char* kLedgerSource = "stat of the files in /dev/shm and of /proc/PID/fd, maps";

double seconds_between(BootNs from, BootNs to) {
  return static_cast<double>(to - from) / kSecond;
}

// Tensors that are made and that the training process has not got.
struct Waiting {
  BootNs at = 0;
  uint64_t bytes = 0;
  uint64_t device = 0;
  double share = 0;  // of all that the mount held
  uint64_t segments = 0;
  uint64_t taken_bytes = 0;  // that the training process has
  bool at_least = false;     // there were too many segments to list each
};

bool is_held_by(const ShmSegment& segment, const ProcessKey& key) {
  return std::ranges::any_of(segment.holders,
                             [&](const SegmentHolder& holder) { return holder.key == key; });
}

bool is_of_subject(const Facts& facts, const ShmSegment& segment) {
  const bool is_held = std::ranges::any_of(segment.holders, &SegmentHolder::in_tree);
  return is_held ||
         (segment.creator == CreatorState::kAlive && creator_of(*facts.run, segment) != nullptr);
}

Waiting waiting_in(const Facts& facts, const ShmLedger& ledger) {
  Waiting waiting = {.at = ledger.at, .device = ledger.device};
  for (const ShmSegment& segment : ledger.segments) {
    const bool is_tensor = segment.kind == SegmentKind::kTorchTensor;
    if (!is_tensor || !is_of_subject(facts, segment)) continue;
    const uint64_t bytes = segment.taken_bytes();
    if (is_held_by(segment, facts.trainer->key)) {
      waiting.taken_bytes += bytes;
    } else {
      waiting.bytes += bytes;
      ++waiting.segments;
    }
  }
  waiting.at_least = ledger.omitted_segments > 0;
  // Of what is not listed a part like that of what is.
  const uint64_t listed = ledger.used_bytes - std::min(ledger.used_bytes, ledger.omitted_bytes);
  if (listed > 0) {
    waiting.share = std::min(1.0, static_cast<double>(waiting.bytes) / static_cast<double>(listed));
  }
  return waiting;
}

// What is there when they are gone, tells nothing of how it was.
BootNs last_of_workers(const Facts& facts) {
  BootNs last = 0;
  for (const Series& each : facts.processes) {
    if (each.info->role == Role::kWorker) last = std::max(last, each.last_at);
  }
  return last;
}

// The last look at the mount in which most waits.
std::optional<Waiting> most_waiting(const Facts& facts) {
  std::map<uint64_t, const ShmLedger*> last;  // by device
  const BootNs end = last_of_workers(facts);
  for (const ShmLedger& ledger : facts.run->ledgers) {
    if (ledger.at <= end) last[ledger.device] = &ledger;
  }
  std::optional<Waiting> most;
  for (const auto& [device, ledger] : last) {
    const Waiting waiting = waiting_in(facts, *ledger);
    if (!most || waiting.bytes > most->bytes) most = waiting;
  }
  return most;
}

// The use of that mount, of which `waiting.share` waits.
std::vector<SeriesPoint> use_of(const Facts& facts, const Waiting& waiting) {
  std::vector<SeriesPoint> series;
  for (const ShmUse& use : facts.run->shm_use) {
    if (use.device == waiting.device && use.at <= waiting.at)
      series.push_back({.at = use.at, .value = static_cast<double>(use.used_bytes)});
  }
  return series;
}

// What waited all the time in the last ten seconds before that look.
uint64_t standing_bytes(const std::vector<SeriesPoint>& use, const Waiting& waiting) {
  constexpr BootNs kStanding = 10 * kSecond;
  double least = HUGE_VAL;
  bool is_long = false;
  for (const SeriesPoint& point : use) {
    if (point.at <= waiting.at - kStanding) is_long = true;
    if (point.at >= waiting.at - kStanding && point.at <= waiting.at)
      least = std::min(least, point.value);
  }
  return is_long && std::isfinite(least) ? static_cast<uint64_t>(least * waiting.share) : 0;
}

struct SwapSpan {
  BootNs from = 0;
  BootNs to = 0;
  double pages_in_per_second = 0;
  double pages_out_per_second = 0;
  std::optional<double> full_share;  // of the time in which everybody stood still
};

// The last stretch of seconds in each of which pages came back from swap.
std::optional<SwapSpan> swapping(const Facts& facts) {
  constexpr double kLeastPages = 128;  // a second: half a MiB
  const auto& looks = facts.host_looks;
  std::optional<SwapSpan> longest;
  size_t first = 0;
  for (size_t i = 1; i < looks.size(); ++i) {
    const HostMemory& before = *looks[i - 1].memory;
    const HostMemory& now = *looks[i].memory;
    if (!before.swapped_in_pages || !now.swapped_in_pages) return std::nullopt;
    const double seconds = seconds_between(looks[i - 1].at, looks[i].at);
    const auto pages = static_cast<double>(*now.swapped_in_pages - *before.swapped_in_pages);
    if (pages < kLeastPages * seconds) {
      first = i;
      continue;
    }
    const HostMemory& start = *looks[first].memory;
    const double span = seconds_between(looks[first].at, looks[i].at);
    SwapSpan found = {.from = looks[first].at, .to = looks[i].at};
    found.pages_in_per_second =
        static_cast<double>(*now.swapped_in_pages - start.swapped_in_pages.value_or(0)) / span;
    found.pages_out_per_second = static_cast<double>(now.swapped_out_pages.value_or(0) -
                                                     start.swapped_out_pages.value_or(0)) /
                                 span;
    if (now.pressure && start.pressure) {
      found.full_share =
          static_cast<double>(now.pressure->full_us - start.pressure->full_us) / 1e6 / span;
    }
    if (!longest || found.to - found.from >= longest->to - longest->from) longest = found;
  }
  return longest;
}

// Major faults of the subject in that time, and who has most of it swapped out.
struct SwappedSubject {
  double faults_per_second = 0;
  uint64_t swap_bytes = 0;
  std::vector<ProcessKey> processes;
};

SwappedSubject subject_swaps(const Facts& facts, const SwapSpan& span) {
  SwappedSubject subject;
  std::map<ProcessKey, std::pair<uint64_t, uint64_t>> faults;  // first and last
  std::map<ProcessKey, uint64_t> swap;
  for (const Sample& sample : facts.run->samples) {
    if (sample.at < span.from || sample.at > span.to) continue;
    for (const ProcessSample& process : sample.processes) {
      const auto [slot, is_new] =
          faults.try_emplace(process.key, process.major_faults, process.major_faults);
      slot->second.second = process.major_faults;
      if (process.swap_bytes && *process.swap_bytes)
        swap[process.key] = std::max(swap[process.key], **process.swap_bytes);
    }
  }
  uint64_t sum = 0;
  for (const auto& [key, counts] : faults) {
    sum += counts.second - counts.first;
    subject.swap_bytes += swap[key];
    if (swap[key] > 0 && counts.second > counts.first) subject.processes.push_back(key);
  }
  subject.faults_per_second =
      static_cast<double>(sum) / std::max(seconds_between(span.from, span.to), 1e-9);
  return subject;
}

uint64_t kept_bytes(const CgroupMemory& group) {
  return group.anon_bytes.value_or(0) + group.shmem_bytes;
}

// What the group has when its processes end tells nothing of what they kept: of a job that has
// ended, the last look at which it was still at work and had most of its limit, shortly before.
const LookAt<CgroupMemory>& last_look_at_work(const Facts& facts, double share) {
  constexpr BootNs kTeardown = 5 * kSecond;
  const auto& looks = facts.cgroup_looks;
  if (facts.trainer == nullptr || facts.run->find_exit(facts.trainer->key) == nullptr)
    return looks.back();
  const auto own = std::ranges::find(facts.processes, facts.trainer, &Series::info);
  const BootNs end = own == facts.processes.end() ? last_at_work(*facts.run) : own->last_at;
  for (const auto& look : std::views::reverse(looks)) {
    const uint64_t limit = look.memory->limit_bytes.value_or(0);
    if (look.at < end - kTeardown) break;
    if (look.at > end || limit == 0) continue;
    if (static_cast<double>(kept_bytes(*look.memory)) > share * static_cast<double>(limit))
      return look;
  }
  return looks.back();
}

uint64_t comfortable(uint64_t bytes) {
  constexpr uint64_t kStep = 256 * kMiB;
  return (bytes + bytes / 4 + kStep - 1) / kStep * kStep;
}

}  // namespace

std::optional<Finding> prefetch_backlog(const Facts& facts) {
  constexpr uint64_t kLeast = 256 * kMiB;
  if (facts.trainer == nullptr || facts.run->ledgers.empty()) return std::nullopt;
  constexpr double kMostOfIt = 0.6;
  const auto waiting = most_waiting(facts);
  if (!waiting || waiting->bytes == 0) return std::nullopt;
  const auto limit = nearest_memory_limit(*facts.run, waiting->at);
  if (!limit) return std::nullopt;
  const std::vector<SeriesPoint> use = use_of(facts, *waiting);
  const auto growth = waiting->share >= kMostOfIt ? find_growth(use) : std::nullopt;
  const bool is_much = standing_bytes(use, *waiting) >= std::max(kLeast, limit->bytes / 10);
  if (!growth && !is_much) return std::nullopt;
  const Waiting& last = *waiting;
  Finding finding = new_finding(FindingCode::kPrefetchBacklog,
                                growth ? Confidence::kLikely : Confidence::kCertain);
  finding.severity = Severity::kWarning;
  finding.discriminator = "in-shared-memory";
  finding.message = (last.at_least ? "at least " : "") + counted(last.segments, "tensor") + " of " +
                    format_bytes(last.bytes) +
                    " together wait in shared memory for the training loop";
  const auto left = static_cast<double>(limit->left_bytes);
  if (growth) {
    const Outlook outlook = outlook_of(facts, {facts.trainer->key});
    finding.message += " and grow by " + format_bytes(static_cast<uint64_t>(growth->per_second)) +
                       "/s; " + say_when(*limit, time_to_limit(*growth, left), outlook);
    if (outlook == Outlook::kReached) finding.severity = Severity::kError;
    if (reaches_limit_soon(*growth, left)) finding.severity = Severity::kError;
  } else {
    finding.message += ", " + own(last.bytes * 100 / std::max<uint64_t>(limit->bytes, 1)) +
                       " % of " + limit->name + " and stay there";
  }
  finding.processes = {facts.trainer->key};
  finding.first_seen = growth ? growth->from : use.front().at;
  finding.last_seen = last.at;
  finding.evidence = {
      bytes_fact("waiting", last.bytes, kLedgerSource, last.at),
      count_fact("waiting_tensors", last.segments, kLedgerSource, last.at),
      bytes_fact("taken_by_the_training_process", last.taken_bytes, kLedgerSource, last.at),
      bytes_fact("memory_limit", limit->bytes, limit->source, limit->at)};
  finding.alternatives = {
      {.cause = "DLP0203", .why_not = "the trainer has none of these segments open or mapped"},
      {.cause = "DLP0104", .why_not = "live workers have them open"}};
  finding.remedies = remedies_for_backlog(*facts.run);
  return finding;
}

std::optional<Finding> swap_thrash(const Facts& facts) {
  constexpr BootNs kShortest = 5 * kSecond;
  constexpr double kLeastFaults = 32;
  constexpr double kHeavyPressure = 0.1;
  const auto span = swapping(facts);
  if (!span || span->to - span->from < kShortest) return std::nullopt;
  const SwappedSubject subject = subject_swaps(facts, *span);
  const bool is_subject = subject.swap_bytes > 0 && subject.faults_per_second >= kLeastFaults;
  const bool is_heavy = !span->full_share || *span->full_share >= kHeavyPressure;
  Finding finding = new_finding(FindingCode::kSwapThrash,
                                is_subject ? Confidence::kCertain : Confidence::kLikely);
  if (!is_subject) finding.severity = Severity::kInfo;
  if (is_subject && !is_heavy) finding.severity = Severity::kWarning;
  const OwnWords rate = format_bytes(static_cast<uint64_t>(span->pages_in_per_second) *
                                     facts.header->host.page_size) +
                        "/s";
  finding.message = is_subject
                        ? "the job reads its own memory back from swap: " + rate + ", " +
                              format_bytes(subject.swap_bytes) + " of it are swapped out"
                        : "the machine reads " + rate + " back from swap, but not of this job";
  finding.discriminator = is_subject ? "subject" : "machine";
  finding.processes = subject.processes;
  finding.first_seen = span->from;
  finding.last_seen = span->to;
  finding.evidence = {
      number_fact("pages_swapped_in", span->pages_in_per_second, "1/s", "pswpin of /proc/vmstat"),
      number_fact("pages_swapped_out", span->pages_out_per_second, "1/s",
                  "pswpout of /proc/vmstat"),
      number_fact("major_faults_of_the_subject", subject.faults_per_second, "1/s",
                  "majflt of /proc/PID/stat"),
      bytes_fact("swapped_out_of_the_subject", subject.swap_bytes, "VmSwap of /proc/PID/status"),
      time_fact("for", span->to - span->from, "/proc/vmstat")};
  if (span->full_share) {
    finding.prove(number_fact("time_at_a_standstill", *span->full_share, "1",
                              "full of /proc/pressure/memory"));
  }
  finding.alternatives = {{.cause = "a slow disk with the data (DLP0310)",
                           .why_not = "pages come from swap, not from files"}};
  finding.remedies = remedies_for_swap(*facts.run);
  return finding;
}

std::optional<Finding> limit_too_low(const Facts& facts) {
  constexpr BootNs kSteady = 10 * kSecond;
  constexpr double kMost = 0.9;
  std::optional<uint64_t> least;
  uint64_t limit = 0;
  if (facts.cgroup_looks.empty()) return std::nullopt;
  const LookAt<CgroupMemory>& last = last_look_at_work(facts, kMost);
  BootNs first = 0;
  for (const auto& [at, memory] : facts.cgroup_looks) {
    const CgroupMemory& group = *memory;
    if (at > last.at || last.at - at > kSteady || !group.limit_bytes || !group.anon_bytes) continue;
    if (!least) first = at;
    const uint64_t kept = kept_bytes(group);
    least = std::min(least.value_or(kept), kept);
    limit = *group.limit_bytes;
  }
  if (!least || last.at - first < kSteady / 10 * 9) return std::nullopt;
  if (static_cast<double>(*least) <= kMost * static_cast<double>(limit)) return std::nullopt;
  const CgroupMemory& group = *last.memory;
  Finding finding = new_finding(FindingCode::kMemoryLimitTooLow, Confidence::kLikely);
  finding.severity = Severity::kWarning;
  finding.message = "the job keeps " + format_bytes(*least) +
                    " of anonymous and shared memory permanently, " +
                    own(*least * 100 / std::max<uint64_t>(limit, 1)) + " % of the " +
                    format_bytes(limit) + " that its cgroup " + as_path(group.path) + " may have";
  finding.first_seen = first;
  finding.last_seen = last.at;
  const Message source = "memory.stat of cgroup " + as_path(group.path);
  const uint64_t enough = comfortable(*least);
  finding.evidence = {
      held_against(bytes_fact("kept", *least, source, last.at), "> 90 % of memory_limit"),
      bytes_fact("memory_limit", limit, "memory limit of the cgroup", last.at),
      bytes_fact("anonymous", group.anon_bytes.value_or(0), source, last.at),
      bytes_fact("shared_memory", group.shmem_bytes, source, last.at),
      bytes_fact("page_cache", group.file_bytes.value_or(0), source, last.at),
      bytes_fact("limit_that_would_do", enough, "what is kept and a quarter more")};
  finding.alternatives = {
      {.cause = "page cache", .why_not = "it does not count: the kernel can free it"}};
  finding.remedies = remedies_for_limit(*facts.run, enough);
  return finding;
}

}  // namespace dlprobe::probes::memory
