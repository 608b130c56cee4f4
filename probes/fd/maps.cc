// DLP0206 memory-map-limit-reached, and what could not be seen.

#include <algorithm>
#include <cerrno>

#include "lib/base/units.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"
#include "probes/fd/rules.h"

namespace dlprobe::probes::fd {
namespace {

constexpr const char* kMapsSource = "lines of /proc/PID/maps";

// Segments of /dev/shm that the process had mapped then.
uint64_t mapped_segments(const ShmLedger& ledger, const ProcessKey& key) {
  uint64_t count = 0;
  for (const ShmSegment& segment : ledger.segments) {
    for (const SegmentHolder& holder : segment.holders)
      if (holder.key == key) count += holder.maps;
  }
  return count;
}

// Whether most of so many mappings are segments; of those that no ledger lists, as of the others.
bool are_segments(const Run& run, const ProcessKey& key, double mappings) {
  return std::ranges::any_of(run.ledgers, [&](const ShmLedger& ledger) {
    uint64_t mapped = mapped_segments(ledger, key);
    if (mapped * 2 > ledger.segments.size()) mapped += ledger.omitted_segments;
    return static_cast<double>(mapped) > mappings / 2;
  });
}

const CountAt* most_of(const Series& series) {
  const auto most = std::ranges::max_element(series.maps, {}, &CountAt::count);
  return most == series.maps.end() ? nullptr : &*most;
}

const FailedExit* failure_after(const Facts& facts, const CountAt& at) {
  constexpr BootNs kBetweenCounts = 10 * kSecond;
  for (const FailedExit& failure : facts.failures)
    if (failure.at >= at.at && failure.at <= at.at + kBetweenCounts) return &failure;
  return nullptr;
}

// How many there were at that time, if they went on to grow as between the last two counts before:
// a process that ends gives them back.
double expected_at(const Series& series, BootNs at) {
  const auto after = std::ranges::upper_bound(series.maps, at, {}, &CountAt::at);
  const auto known = after - series.maps.begin();
  const CountAt& last = series.maps[static_cast<size_t>(std::max<ptrdiff_t>(known - 1, 0))];
  const auto count = static_cast<double>(last.count);
  if (known < 2) return count;
  const CountAt& before = series.maps[static_cast<size_t>(known - 2)];
  const double grown = count - static_cast<double>(before.count);
  return count + std::max(grown, 0.0) * static_cast<double>(at - last.at) /
                     static_cast<double>(std::max<BootNs>(last.at - before.at, 1));
}

// When an exception told of it, or there was no memory to tell of one. Where no further mapping is
// granted, Python has no stack for a deeper call, and its witness cannot count them.
std::optional<BootNs> refused_at(const Run& run, const ProcessKey& key) {
  const auto found = std::ranges::find_if(run.start_events, [&](const StartEvent& event) {
    const bool is_mute = event.kind == StartEventKind::kHookFailed && event.type == "MemoryError";
    const bool is_of_memory = event.type == "RuntimeError" || event.error_number == ENOMEM;
    const bool is_uncounted = event.kind == StartEventKind::kFailed && is_of_memory && !event.limit;
    return (is_mute || is_uncounted) && event.process == key;
  });
  return found == run.start_events.end() ? std::nullopt : std::optional(found->at);
}

// Whether it was on its way to that many when an exception ended it, a while after its last count.
std::optional<BootNs> came_to(const Facts& facts, const Series& series, uint64_t limit) {
  const auto at = refused_at(*facts.run, series.key());
  const bool came =
      at && !series.maps.empty() && expected_at(series, *at) >= 0.9 * static_cast<double>(limit);
  return came ? at : std::nullopt;
}

// Who has ended has no descriptors; of very many the newest were looked at.
bool is_gap(const Error& error) {
  return error.code != ErrorCode::kVanished && error.code != ErrorCode::kNotFound &&
         error.code != ErrorCode::kInsufficient;
}

bool has_any_count(const Facts& facts) {
  return std::ranges::any_of(facts.series,
                             [](const Series& series) { return !series.counts.empty(); });
}

// A program that is over so soon did not run out of anything.
bool ended_before_a_look(const Run& run) {
  return run.samples.size() <= 1 && has_subject_ended(run);
}

void add_gaps_of(const Series& series, const Run& run, std::vector<Gap>& gaps) {
  const OwnWords who = describe(run, series.key());
  if (series.unread && is_gap(*series.unread)) {
    gaps.push_back({.what = "descriptors of " + who,
                    .why = as_text(to_string(*series.unread)),
                    .effect = "dlprobe cannot tell what they lead to",
                    .remedy = series.unread->code == ErrorCode::kForbidden
                                  ? "run dlprobe as the user of the job, or with CAP_SYS_PTRACE"
                                  : ""});
  }
  const auto& limit = series.process->open_files_limit;
  if (!limit && is_gap(limit.error())) {
    gaps.push_back({.what = "limit of descriptors of " + who,
                    .why = as_text(to_string(limit.error())),
                    .effect = "dlprobe cannot tell how near it is"});
  }
}

void add_remedies(Finding& finding, uint64_t limit, bool are_segments) {
  if (are_segments) {
    finding.advise("Keep copies: each live tensor of a batch is one mapping",
                   {"kept.append(batch.clone())  # a copy in ordinary memory"},
                   "wc -l /proc/PID/maps");
  } else {
    finding.advise(
        "See what they lead to; map each file once and reuse it, close what is done with",
        {"awk '{print $2, $6}' /proc/PID/maps | sort | uniq -c | sort -n | tail"},
        "wc -l /proc/PID/maps");
  }
  finding.remedies.push_back({.title = "Allow more mappings per process",
                              .commands = {"sudo sysctl -w vm.max_map_count=" + own(limit * 4)},
                              .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
                              .verify = "sysctl vm.max_map_count"});
}

struct Fullest {
  const Series* series = nullptr;
  std::optional<BootNs> came_at;  ///< when it came to the limit, after its last count
};

Fullest fullest_of(const Facts& facts, uint64_t limit) {
  Fullest fullest;
  for (const Series& series : facts.series) {
    const CountAt* most = most_of(series);
    if (most == nullptr) continue;
    const auto came_at = came_to(facts, series, limit);
    const bool is_fuller =
        fullest.series == nullptr || (came_at.has_value() == fullest.came_at.has_value()
                                          ? most->count > most_of(*fullest.series)->count
                                          : came_at.has_value());
    if (is_fuller) fullest = {.series = &series, .came_at = came_at};
  }
  return fullest;
}

OwnWords after_that_count(const CountAt& count, const std::optional<BootNs>& came_at) {
  if (!came_at) return "";
  return ", which it came to " + format_duration(std::chrono::nanoseconds(*came_at - count.at)) +
         " after that count";
}

}  // namespace

std::optional<Finding> mappings_exhausted(const Facts& facts) {
  const auto limit = facts.header->host.max_map_count;
  if (!limit || *limit == 0) return std::nullopt;
  const auto [fullest, came_at] = fullest_of(facts, *limit);
  if (fullest == nullptr) return std::nullopt;
  const CountAt most = *most_of(*fullest);
  if (!came_at && most.count * 10 < *limit * 8) return std::nullopt;
  // The text has a line for [vsyscall], too, and the last one or two that were taken back.
  const auto nearly = 0.99 * static_cast<double>(*limit);
  const FailedExit* failure =
      failure_after(facts, {.at = came_at.value_or(most.at), .count = most.count});
  const bool reached = came_at || static_cast<double>(most.count) >= nearly ||
                       (failure != nullptr && failure->key == fullest->key() &&
                        expected_at(*fullest, failure->at) >= nearly);
  if (!reached) failure = nullptr;
  Finding finding = new_finding(FindingCode::kMemoryMapLimitReached,
                                failure != nullptr && static_cast<double>(most.count) >= nearly
                                    ? Confidence::kCertain
                                    : Confidence::kLikely);
  if (!reached) finding.severity = Severity::kWarning;
  const uint64_t segments =
      facts.run->ledgers.empty() ? 0 : mapped_segments(facts.run->ledgers.back(), fullest->key());
  finding.message = describe(*facts.run, fullest->key()) + " has " + own(most.count) +
                    " memory mappings; the limit vm.max_map_count is " + own(*limit);
  finding.message += after_that_count(most, came_at);
  if (segments > most.count / 2)
    finding.message += "; " + own(segments) + " of them are segments in /dev/shm";
  if (failure != nullptr)
    finding.message += "; " + describe(*facts.run, failure->key) + " ended with " + failure->how;
  finding.processes = {fullest->key()};
  finding.first_seen = most.at;
  const Evidence count = count_fact("mappings", most.count, kMapsSource, most.at);
  finding.prove(came_at ? count : held_against(count, ">= 80 % of max_map_count"));
  finding.prove(count_fact("max_map_count", *limit, "/proc/sys/vm/max_map_count"));
  if (segments > 0)
    finding.prove(
        count_fact("segments_mapped", segments, "/proc/PID/maps", facts.run->ledgers.back().at));
  add_remedies(finding, *limit,
               are_segments(*facts.run, fullest->key(), static_cast<double>(most.count)));
  return finding;
}

std::optional<Finding> growing_mappings(const Facts& facts) {
  constexpr double kThisDay = 86'400;
  const auto most = facts.header->host.max_map_count;
  std::optional<Finding> soonest;
  double soonest_s = kThisDay;
  for (const Series& series : facts.series) {
    if (series.maps.empty() || !most) continue;
    const auto growth =
        find_count_growth(points_of(series.maps, series.maps.back().at), kRiseOfMappings);
    const uint64_t count = series.maps.back().count;
    const uint64_t left = *most - std::min(*most, count);
    const auto seconds = growth ? time_to_limit(*growth, static_cast<double>(left)) : std::nullopt;
    if (!seconds || *seconds >= soonest_s) continue;
    soonest_s = *seconds;
    soonest = new_finding(FindingCode::kMemoryMapLimitReached, Confidence::kLikely);
    soonest->discriminator = "growth";
    soonest->message =
        describe(*facts.run, series.key()) + " leaks memory mappings: " + own(count) + " mappings";
    soonest->processes = {series.key()};
    soonest->prove(count_fact("mappings", count, kMapsSource, series.maps.back().at));
    tell_count_growth(*soonest, *growth, kMapsSource,
                      CountLimit{.name = "vm.max_map_count (" + own(*most) + ")",
                                 .left = left,
                                 .has_ended = has_subject_ended(*facts.run)},
                      "a cache of mapped files");
    const auto grown =
        growth->per_second * static_cast<double>(growth->to - growth->from) / kSecond;
    add_remedies(*soonest, *most, are_segments(*facts.run, series.key(), grown));
  }
  return soonest;
}

std::vector<Gap> gaps_of(const Facts& facts) {
  std::vector<Gap> gaps;
  const bool never_started = facts.run->end && facts.run->end->reason == RunEndReason::kNotStarted;
  if (facts.run->begin.preflight || never_started) return gaps;
  const bool is_seen = !facts.series.empty() && has_any_count(facts);
  if (!is_seen && ended_before_a_look(*facts.run)) return gaps;
  if (!is_seen) {
    gaps.push_back(
        {.what = "open descriptors",
         .why = facts.series.empty() ? "dlprobe saw no process" : "dlprobe never counted them",
         .effect = "dlprobe cannot tell whether they run out",
         .remedy = "watch longer: --for 15s"});
    return gaps;
  }
  for (const Series& series : facts.series) {
    const Role role = series.process->role;
    if (role == Role::kTrainer || role == Role::kWorker) add_gaps_of(series, *facts.run, gaps);
  }
  return gaps;
}

}  // namespace dlprobe::probes::fd
