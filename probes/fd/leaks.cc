// Who stood at its limit, and whose descriptors pile up.

#include <algorithm>
#include <ranges>

#include "lib/base/units.h"
#include "lib/model/fd_limit.h"
#include "probes/facts/facts.h"
#include "probes/fd/rules.h"

namespace dlprobe::probes::fd {
namespace {

// A failure so soon after a process was seen at its limit is its consequence.
constexpr BootNs kSoon = 2 * kSecond;
// It was at its limit before it was counted.
constexpr BootNs kCountEvery = 200 * kMillisecond;
constexpr BootNs kStandsStill = 3 * kSecond;
constexpr uint64_t kIdleTicks = 3;
constexpr BootNs kShortestClimb = 600 * kMillisecond;
constexpr uint64_t kLeastClimb = 8;
// A climb of so much of what was free, for so long, may speak before the limit is reached.
constexpr BootNs kShortestForecast = 8 * kSecond;
constexpr double kSureShare = 0.5;
// Slower ones have to be watched for longer: see monitor-facts, 12 blocks of 10 s.
constexpr BootNs kLongWatch = 120 * kSecond;
constexpr uint64_t kLeastGrowth = 16;
constexpr double kMostlyOne = 0.6;  ///< of the growth is of one kind

bool is_at_limit(const Series& series, uint64_t count) {
  return series.limit && is_at_fd_limit(count, *series.limit);
}

struct Share {
  FdKind kind = FdKind::kOther;
  uint64_t growth = 0;
  std::optional<FdKind> second;
  uint64_t of_second = 0;
  uint64_t all = 0;  ///< growth of all kinds that grew
};

// The two kinds that grew most between two looks.
Share largest_growth(const FdKinds& before, const FdKinds& after) {
  Share share;
  for (const FdKind kind : kValues<FdKind>) {
    const uint64_t growth = after[kind] - std::min(after[kind], before[kind]);
    share.all += growth;
    if (growth > share.growth) {
      if (share.growth > 0) share.second = share.kind;
      share.of_second = std::exchange(share.growth, growth);
      share.kind = kind;
    } else if (growth > share.of_second) {
      share.second = kind;
      share.of_second = growth;
    }
  }
  return share;
}

const FailedExit* failure_while(const Facts& facts, const Series& series, BootNs from, BootNs to) {
  const auto is_then = [&](BootNs at) { return at >= from - kCountEvery && at <= to + kSoon; };
  const FailedExit* of_others = nullptr;
  for (const FailedExit& failure : facts.failures) {
    if (!is_then(failure.at) && !is_then(failure.raised_at)) continue;
    if (failure.key == series.key()) return &failure;
    const bool is_trainer = facts.trainer != nullptr && failure.key == facts.trainer->key;
    if (of_others == nullptr || is_trainer) of_others = &failure;
  }
  return of_others;
}

uint64_t ticks_of(const Sample& sample) {
  uint64_t ticks = 0;
  for (const ProcessSample& process : sample.processes)
    ticks += process.utime_ticks + process.stime_ticks;
  return ticks;
}

// For how long before the last sample nobody of the tree has computed.
BootNs still_at_end(const Run& run) {
  if (run.samples.empty()) return 0;
  const Sample& last = run.samples.back();
  const uint64_t ticks = ticks_of(last);
  BootNs since = last.at;
  for (const Sample& sample : std::views::reverse(run.samples)) {
    const bool same = sample.processes.size() == last.processes.size() &&
                      ticks - std::min(ticks, ticks_of(sample)) <= kIdleTicks;
    if (!same) break;
    since = sample.at;
  }
  return last.at - since;
}

void name_kind(Exhaustion& exhaustion) {
  const KindsAt* kinds = kinds_at(*exhaustion.series, exhaustion.to);
  if (kinds == nullptr) return;
  const Share share = largest_growth({}, kinds->kinds);
  // A look from long before the limit was reached says nothing of what filled the table.
  if (share.growth * 2 < std::max(share.all, exhaustion.series->limit.value_or(0))) return;
  exhaustion.kind = share.kind;
  exhaustion.of_kind = share.growth;
}

std::optional<Exhaustion> exhaustion_of(const Facts& facts, const Series& series) {
  const auto at_limit = [&](const CountAt& point) { return is_at_limit(series, point.count); };
  const auto first = std::ranges::find_if(series.counts, at_limit);
  if (first == series.counts.end()) return std::nullopt;
  auto newest_first = std::views::reverse(series.counts);
  const auto last = std::ranges::find_if(newest_first, at_limit);
  Exhaustion exhaustion{.series = &series, .from = first->at, .to = last->at};
  if (const FailedExit* failure = failure_while(facts, series, exhaustion.from, exhaustion.to))
    exhaustion.failure = *failure;
  const bool stays = series.until_end && last == newest_first.begin();
  if (stays) exhaustion.still_for = still_at_end(*facts.run);
  if (exhaustion.still_for < kStandsStill) exhaustion.still_for = 0;
  name_kind(exhaustion);
  return exhaustion;
}

uint64_t most_segments_of_workers(const Facts& facts) {
  uint64_t most = 0;
  for (const Series& series : facts.series) {
    if (series.process->role != Role::kWorker) continue;
    for (const KindsAt& each : series.kinds)
      most = std::max(most, each.kinds[FdKind::kSegment]);
  }
  return most;
}

// What all workers were seen to have in flight, twice over: the trainer needs no more.
bool exceeds_flight(const Facts& facts, const Series& series, uint64_t segments) {
  constexpr uint64_t kOfOneBatch = 8;
  return series.process == facts.trainer &&
         segments > 2 * facts.workers * most_segments_of_workers(facts) + kOfOneBatch;
}

bool is_mostly(uint64_t growth, const Share& share) {
  return static_cast<double>(growth) >= kMostlyOne * static_cast<double>(share.all);
}

// Nearly all of it is of two kinds that grow alike: what is opened holds one of each.
bool are_pair(const Share& share) {
  const bool has_segments = share.kind == FdKind::kSegment || share.second == FdKind::kSegment;
  return share.second && !has_segments && share.growth - share.of_second <= share.growth / 4 &&
         (share.growth + share.of_second) * 10 >= share.all * 9;
}

// asyncio's loop has a pair of sockets to be woken by.
bool are_event_loops(const Share& share) {
  const uint64_t loops = 2 * share.of_second;
  return share.kind == FdKind::kSocket && share.second == FdKind::kEpoll &&
         std::max(loops, share.growth) - std::min(loops, share.growth) <= share.growth / 4 &&
         (share.growth + share.of_second) * 10 >= share.all * 9;
}

// What grew, of `kind` if that is known; nothing where it is not known, or too many kinds.
std::optional<Leak> leak_of(const Facts& facts, const Series& series, const CountGrowth& growth,
                            std::optional<FdKind> kind = {}) {
  const KindsAt* before = kinds_at(series, growth.from);
  const KindsAt* after = kinds_at(series, growth.to);
  if (before == nullptr || after == nullptr) return std::nullopt;
  const bool one_look = before->at == after->at;
  const Share share = largest_growth(one_look ? FdKinds{} : before->kinds, after->kinds);
  const bool are_loops = are_event_loops(share) && kind.value_or(share.kind) == share.kind;
  const bool is_pair = are_loops || (!kind && !is_mostly(share.growth, share) && are_pair(share));
  if (!kind && !is_pair && !is_mostly(share.growth, share)) return std::nullopt;
  Leak leak{.series = &series, .kind = kind.value_or(share.kind), .growth = growth};
  leak.are_event_loops = are_loops;
  leak.of_kind = after->kinds[leak.kind];
  if (is_pair && share.second) {
    leak.second = share.second;
    leak.of_kind += after->kinds[*share.second];
  }
  leak.exceeds_flight =
      leak.kind == FdKind::kSegment && exceeds_flight(facts, series, leak.of_kind);
  if (series.limit && growth.per_second > 0) {
    const uint64_t left = *series.limit - std::min(*series.limit, growth.last);
    leak.seconds_left = static_cast<double>(left) / growth.per_second;
  }
  return leak;
}

// The climb that led to an exhaustion.
std::optional<Leak> climb_to(const Facts& facts, const Exhaustion& exhaustion) {
  const Series& series = *exhaustion.series;
  const uint64_t limit = series.limit.value_or(0);
  const uint64_t free = limit - std::min(limit, series.counts.front().count);
  const auto growth =
      growth_until(series.counts, exhaustion.from, kShortestClimb, std::max(kLeastClimb, free / 4));
  if (growth) {
    auto leak = leak_of(facts, series, *growth);
    if (leak) {
      leak->seconds_left = 0;
      return leak;
    }
  }
  // Too fast to be seen climbing: told by what the trainer alone has.
  if (exhaustion.kind != FdKind::kSegment || !exceeds_flight(facts, series, exhaustion.of_kind))
    return std::nullopt;
  Leak leak{.series = &series,
            .kind = FdKind::kSegment,
            .of_kind = exhaustion.of_kind,
            .growth = {.from = series.counts.front().at,
                       .to = exhaustion.from,
                       .first = series.counts.front().count,
                       .last = series.most},
            .exceeds_flight = true,
            .seconds_left = 0.0};
  const auto time = static_cast<double>(leak.growth.to - leak.growth.from) / kSecond;
  if (time > 0) leak.growth.per_second = static_cast<double>(exhaustion.of_kind) / time;
  return leak;
}

bool has_ended(const Facts& facts, const Series& series) {
  return !series.until_end || facts.run->find_exit(series.key()) != nullptr;
}

// At its end a process closes what it has: the last moment before that. Nothing where it closed
// most of it long before.
std::optional<BootNs> end_of_work(const Series& series) {
  constexpr BootNs kTeardown = 5 * kSecond;
  const uint64_t first = series.counts.front().count;
  const auto most = std::ranges::max_element(series.counts, {}, &CountAt::count)->count;
  const uint64_t nearly = first + (most - first) / 10 * 9;
  const auto newest_first = std::views::reverse(series.counts);
  const auto last = std::ranges::find_if(
      newest_first, [&](const CountAt& point) { return point.count >= nearly; });
  if (last->at < series.counts.back().at - kTeardown) return std::nullopt;
  return last->at;
}

// Whether it had closed half as much before as it now has more: it comes and goes.
bool has_fallen_before(const Series& series, const CountGrowth& growth) {
  uint64_t most = 0;
  uint64_t fall = 0;
  for (const CountAt& point : series.counts) {
    if (point.at > growth.from) break;
    most = std::max(most, point.count);
    fall = std::max(fall, most - point.count);
  }
  return fall * 2 >= growth.last - growth.first;
}

// A climb that took most of what was free, or that was watched for long: sure before the limit is
// reached.
std::optional<CountGrowth> sure_climb(const Series& series, BootNs end) {
  const auto growth = growth_until(series.counts, end, kShortestForecast, kLeastGrowth);
  if (!growth) return std::nullopt;
  const uint64_t start = series.counts.front().count;
  const bool used_half =
      series.limit &&
      static_cast<double>(growth->last - std::min(growth->last, start)) >=
          kSureShare * static_cast<double>(*series.limit - std::min(*series.limit, start));
  return used_half || growth->to - growth->from >= kLongWatch ? growth : std::nullopt;
}

uint64_t count_at(const Series& series, BootNs at) {
  const auto after = std::ranges::upper_bound(series.counts, at, {}, &CountAt::at);
  return after == series.counts.begin() ? after->count : std::prev(after)->count;
}

// A growth along a line, of all or of one kind.
struct Line {
  Growth growth;
  std::optional<FdKind> kind;
};

// Of one kind, where the others come and go, or come to an end.
std::optional<Line> line_of_one_kind(const Series& series, BootNs end) {
  std::optional<Line> fastest;
  for (const FdKind kind : kValues<FdKind>) {
    std::vector<SeriesPoint> points;
    for (const KindsAt& each : series.kinds) {
      if (each.at > end) break;
      points.push_back({.at = each.at, .value = static_cast<double>(each.kinds[kind])});
    }
    const auto growth = find_count_growth(points, kRiseOfDescriptors);
    if (growth && (!fastest || growth->per_second > fastest->growth.per_second))
      fastest = {.growth = *growth, .kind = kind};
  }
  return fastest;
}

std::optional<Line> line_until(const Facts& facts, const Series& series, BootNs end) {
  const auto birth = has_ended(facts, series)
                         ? std::nullopt
                         : std::optional(birth_of(facts.header->host, series.key()));
  const auto growth = find_count_growth(points_of(series.counts, end), kRiseOfDescriptors, birth);
  return growth ? std::optional(Line{.growth = *growth, .kind = {}})
                : line_of_one_kind(series, end);
}

// A climb that goes on, or did so until its process ended.
std::optional<Leak> climb_at_end(const Facts& facts, const Series& series) {
  if (series.counts.empty()) return std::nullopt;
  const bool ended = has_ended(facts, series);
  const auto end = ended ? end_of_work(series) : std::optional(series.counts.back().at);
  if (!end) return std::nullopt;
  auto climb = sure_climb(series, *end);
  const auto line = climb ? std::nullopt : line_until(facts, series, *end);
  if (line) {
    climb = {.from = line->growth.from,
             .to = std::min(line->growth.to, *end),
             .first = count_at(series, line->growth.from),
             .last = count_at(series, *end),
             .per_second = line->growth.per_second};
  }
  if (!climb) return std::nullopt;
  if (ended && has_fallen_before(series, *climb)) return std::nullopt;
  auto leak = leak_of(facts, series, *climb, line ? line->kind : std::nullopt);
  // Files of /dev/shm that have a name count there.
  const KindsAt* kinds = kinds_at(series, climb->to);
  const bool is_named = line && kinds != nullptr && leak && leak->kind == FdKind::kSegment &&
                        kinds->kinds.unlinked_segments * 2 < kinds->kinds.segments;
  // What waits for the trainer piles up in a worker, to a plateau.
  const bool is_backlog = leak && leak->kind == FdKind::kSegment &&
                          series.process == facts.trainer && !leak->exceeds_flight;
  if (!leak || is_backlog || is_named) return std::nullopt;
  leak->has_ended = ended;
  if (line) leak->brief = line->growth;
  return leak;
}

}  // namespace

std::vector<Exhaustion> find_exhaustions(const Facts& facts) {
  std::vector<Exhaustion> exhaustions;
  for (const Series& series : facts.series) {
    if (auto exhaustion = exhaustion_of(facts, series)) exhaustions.push_back(*exhaustion);
  }
  std::ranges::stable_sort(exhaustions, {}, [](const Exhaustion& each) {
    return std::pair(!each.failure.has_value(), each.from);
  });
  return exhaustions;
}

std::vector<Leak> find_leaks(const Facts& facts, const std::vector<Exhaustion>& exhaustions) {
  std::vector<Leak> leaks;
  for (const Exhaustion& exhaustion : exhaustions) {
    auto leak = climb_to(facts, exhaustion);
    if (!leak) continue;
    leak->exhaustion = &exhaustion;
    leaks.push_back(*leak);
  }
  for (const Series& series : facts.series) {
    const auto is_it = [&](const auto& each) { return each.series == &series; };
    if (std::ranges::any_of(exhaustions, is_it)) continue;
    if (auto leak = climb_at_end(facts, series)) leaks.push_back(*leak);
  }
  return leaks;
}

}  // namespace dlprobe::probes::fd
