#include "probes/facts/trend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// Values of one size, as ranks see them: how many there are of each that occurs more than once.
double tie_term(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  double term = 0;
  for (size_t i = 0; i < sorted.size();) {
    const size_t first = i;
    while (i < sorted.size() && sorted[i] == sorted[first])
      ++i;
    const auto count = static_cast<double>(i - first);
    term += count * (count - 1) * (2 * count + 5);
  }
  return term;
}

double kendall_variance(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  return (n * (n - 1) * (2 * n + 5) - tie_term(values)) / 18;
}

double sign(double value) {
  return static_cast<double>(value > 0) - static_cast<double>(value < 0);
}

// The quantile of the normal distribution, by halving: a few calls, no table to get wrong.
double normal_quantile(double probability) {
  double low = -10;
  double high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    const double below = std::erfc(-middle / std::numbers::sqrt2) / 2;
    (below < probability ? low : high) = middle;
  }
  return low;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// How a stretch is cut up, and what it must show.
struct Tier {
  BootNs block = 0;
  std::array<size_t, 6> windows = {};  // in blocks; 0: none
  double least_rise = 0;               // that it must have grown by, at the least
  double least_share = 0;              // the same, of what was there at its beginning
  double second_half = 0;       // growth of the second half, at least so much of the first one's
  size_t in_a_row = 0;          // looks, a block apart, that all must show it
  double most_bend = HUGE_VAL;  // distance from the line between its ends, as a part of its rise
  bool is_brief = false;
};
constexpr double kMebi = 1 << 20;
constexpr std::array<Tier, 3> kTiers = {{
    {2 * kSecond, {12, 18, 24, 30, 45, 60}, 64 * kMebi, 0.1, 0.8, 3},
    {20 * kSecond, {12, 19, 30, 60}, 8 * kMebi, 0.01, 0.7, 2},
    {120 * kSecond, {12, 19, 30, 60}, 48 * kMebi, 0.02, 0.7, 2},
}};
constexpr double kLine = 0.1;
constexpr std::array<Tier, 1> kBriefTiers = {
    {{kSecond, {12, 16, 20, 30, 45, 60}, 48 * kMebi, 0.05, 0.85, 2, kLine, true}}};
// Each with what the caller takes for the least.
constexpr std::array<Tier, 4> kCountTiers = {{
    {kSecond, {8, 12, 36, 60}, 0, 0.1, 0.8, 2, kLine, true},
    {kSecond, {16, 24}, 0, 0.1, 0.8, 2, kLine, true},
    {4 * kSecond, {8, 12, 15}, 0, 0.1, 0.8, 2, kLine, true},
    {20 * kSecond, {12, 19, 30, 60}, 0, 0.05, 0.7, 2},
}};
constexpr double kMostChance = 0.001;
constexpr double kConfidence = 0.98;
constexpr size_t kChunks = 6;
constexpr double kMostOfOneStep = 0.5;
constexpr double kStepThatCounts = 0.06;
constexpr double kStillGrows = 0.7;  // in the last quarter, of the rate of all
constexpr double kFallThatCounts = 0.5;
constexpr BootNs kLongWatched = 240 * kSecond;

struct Block {
  BootNs number = 0;
  BootNs at = 0;  // of its least value
  double least = 0;
};

// The last block is left out: it may go on.
std::vector<Block> blocks_of(std::span<const SeriesPoint> series, BootNs width) {
  std::vector<Block> blocks;
  for (const SeriesPoint& point : series) {
    const BootNs number = point.at / width;
    if (blocks.empty() || blocks.back().number != number) {
      blocks.push_back({.number = number, .at = point.at, .least = point.value});
    } else if (point.value < blocks.back().least) {
      blocks.back().at = point.at;
      blocks.back().least = point.value;
    }
  }
  if (!blocks.empty()) blocks.pop_back();
  return blocks;
}

std::array<double, kChunks> chunk_medians(std::span<const Block> window) {
  std::array<double, kChunks> medians{};
  for (size_t chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<double> values;
    for (size_t i = chunk * window.size() / kChunks; i < (chunk + 1) * window.size() / kChunks; ++i)
      values.push_back(window[i].least);
    medians.at(chunk) = median(std::move(values));
  }
  return medians;
}

// Not by one step, and not as what comes to an end.
bool grows_evenly(std::span<const Block> window, const Tier& tier) {
  const auto medians = chunk_medians(window);
  const double total = medians.back() - medians.front();
  int up = 0;
  for (size_t i = 1; i < kChunks; ++i) {
    const double step = medians.at(i) - medians.at(i - 1);
    if (step > kStepThatCounts * total) ++up;
    if (step > kMostOfOneStep * total) return false;
  }
  const double first = medians.at(2) - medians.at(0);
  const double second = medians.at(5) - medians.at(3);
  return up >= 4 && second >= tier.second_half * first;
}

// Whether the end of the window still has most of the rate of all of it.
bool still_grows(std::span<const Block> window, double floor) {
  const double total = window.back().least - window.front().least;
  // Of what grows by little, noise is a large part.
  if (total < 2 * floor && floor < 32 * kMebi) return true;
  const Block& before = window[window.size() - 1 - window.size() / 4];
  const auto blocks = static_cast<double>(window.back().number - before.number);
  const auto all = static_cast<double>(window.back().number - window.front().number);
  return window.back().least - before.least >= kStillGrows * total * blocks / all;
}

// The deepest fall of the lower envelope.
double deepest_fall(std::span<const Block> blocks) {
  double highest = -HUGE_VAL;
  double fall = 0;
  for (const Block& block : blocks) {
    highest = std::max(highest, block.least);
    fall = std::max(fall, highest - block.least);
  }
  return fall;
}

// Whether all of it lies near the line between its ends.
bool is_line(std::span<const Block> window, double most_bend) {
  const Block& first = window.front();
  const double rise = window.back().least - first.least;
  const double per_ns = rise / static_cast<double>(window.back().at - first.at);
  return std::ranges::all_of(window, [&](const Block& block) {
    const double on_line = first.least + per_ns * static_cast<double>(block.at - first.at);
    return std::abs(block.least - on_line) <= most_bend * rise;
  });
}

// Whether the last `count` of the blocks grow; cheap tests first.
std::optional<Growth> growth_of(std::span<const Block> blocks, size_t count, const Tier& tier) {
  if (blocks.size() < count) return std::nullopt;
  const auto window = blocks.last(count);
  const auto spanned = static_cast<size_t>(window.back().number - window.front().number + 1);
  if (spanned > count + count / 4) return std::nullopt;  // too many holes
  const double floor = std::max(tier.least_rise, tier.least_share * window.front().least);
  if (window.back().least - window.front().least < floor) return std::nullopt;
  if (!is_line(window, tier.most_bend)) return std::nullopt;
  if (!grows_evenly(window, tier) || !still_grows(window, floor)) return std::nullopt;
  std::vector<double> times;
  std::vector<double> values;
  for (const Block& block : window) {
    times.push_back(static_cast<double>(block.number * tier.block) / kSecond);
    values.push_back(block.least);
  }
  const MannKendall test = mann_kendall(values);
  if (test.p >= kMostChance) return std::nullopt;
  const TheilSen slope = theil_sen(times, values, kConfidence);
  const double span = times.back() - times.front();
  const double grown = slope.lower * span;
  if (grown < floor || deepest_fall(blocks) > kFallThatCounts * slope.slope * span)
    return std::nullopt;
  return Growth{.from = window.front().number * tier.block,
                .to = (window.back().number + 1) * tier.block,
                .per_second = slope.slope,
                .least_per_second = slope.lower,
                .value = window.back().least,
                .is_long_watched = static_cast<BootNs>(spanned) * tier.block >= kLongWatched,
                .is_brief = tier.is_brief,
                .p = test.p};
}

std::optional<Growth> growth_in_a_row(std::span<const Block> blocks, size_t count,
                                      const Tier& tier) {
  if (count == 0 || blocks.size() + 1 < count + tier.in_a_row) return std::nullopt;
  const auto last = growth_of(blocks, count, tier);
  for (size_t back = 1; last && back < tier.in_a_row; ++back) {
    if (!growth_of(blocks.first(blocks.size() - back), count, tier)) return std::nullopt;
  }
  return last;
}

std::optional<Growth> longest_growth(std::span<const SeriesPoint> series,
                                     std::span<const Tier> tiers) {
  std::optional<Growth> longest;
  for (const Tier& tier : tiers) {
    const std::vector<Block> blocks = blocks_of(series, tier.block);
    for (const size_t count : tier.windows) {
      const auto now = growth_in_a_row(blocks, count, tier);
      if (!now) continue;
      if (!longest || now->to - now->from > longest->to - longest->from) longest = now;
    }
  }
  return longest;
}

std::array<Tier, kCountTiers.size()> count_tiers(const LeastRise& least) {
  auto tiers = kCountTiers;
  for (Tier& tier : tiers)
    tier.least_rise = least.at_once;
  tiers[1].least_rise = least.in_16_s;
  return tiers;
}

// The least that each asks for, by its time.
std::optional<double> slowest_in(BootNs watched, std::span<const Tier> tiers) {
  std::optional<double> slowest;
  for (const Tier& tier : tiers) {
    for (const size_t count : tier.windows) {
      // The first block and the last one are parts, and it must have been so in the ones before.
      const BootNs needed = static_cast<BootNs>(count + tier.in_a_row) * tier.block;
      if (count == 0 || needed > watched) continue;
      const double seconds =
          static_cast<double>(static_cast<BootNs>(count - 1) * tier.block) / kSecond;
      slowest = std::min(slowest.value_or(HUGE_VAL), tier.least_rise / seconds);
    }
  }
  return slowest;
}

}  // namespace

MannKendall mann_kendall(std::span<const double> values) {
  MannKendall test;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i + 1; j < values.size(); ++j)
      test.s += sign(values[j] - values[i]);
  }
  test.variance = kendall_variance(values);
  if (test.variance > 0) test.z = (test.s - sign(test.s)) / std::sqrt(test.variance);
  test.p = std::erfc(test.z / std::numbers::sqrt2) / 2;
  return test;
}

TheilSen theil_sen(std::span<const double> times, std::span<const double> values,
                   double confidence) {
  std::vector<double> slopes;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i + 1; j < values.size(); ++j) {
      const double step = times[j] - times[i];
      if (step > 0) slopes.push_back((values[j] - values[i]) / step);
    }
  }
  if (slopes.empty()) return {};
  std::ranges::sort(slopes);
  const double variance = kendall_variance(values) - tie_term(times) / 18;
  const double width = normal_quantile((1 + confidence) / 2) * std::sqrt(std::max(variance, 0.0));
  const auto count = static_cast<double>(slopes.size());
  const double last = count - 1;
  const double upper = std::min(std::nearbyint((count + width) / 2), last);
  const double lower = std::max(std::nearbyint((count - width) / 2) - 1, 0.0);
  return {.slope = median(slopes),
          .lower = slopes[static_cast<size_t>(lower)],
          .upper = slopes[static_cast<size_t>(upper)]};
}

std::optional<Growth> find_growth(std::span<const SeriesPoint> series) {
  return longest_growth(series, kTiers);
}

std::optional<Growth> find_byte_growth(std::span<const SeriesPoint> series,
                                       std::optional<BootNs> birth) {
  constexpr double kLeastByAge = 8 * kMebi;
  auto growth = find_growth(series);
  if (!growth) growth = longest_growth(series, kBriefTiers);
  if (!growth && birth) growth = find_growth_since(*birth, series, kLeastByAge);
  return growth;
}

std::optional<Growth> find_count_growth(std::span<const SeriesPoint> series, const LeastRise& least,
                                        std::optional<BootNs> birth) {
  auto growth = longest_growth(series, count_tiers(least));
  if (!growth && birth && least.by_age > 0)
    growth = find_growth_since(*birth, series, least.by_age);
  return growth;
}

std::optional<Growth> find_growth_since(BootNs birth, std::span<const SeriesPoint> series,
                                        double least) {
  constexpr BootNs kShortest = 2 * kSecond;
  constexpr BootNs kLongest = 20 * kSecond;
  constexpr BootNs kYoungest = 20 * kSecond;
  constexpr double kMostOff = 0.25;
  constexpr double kLeastOfThird = 0.15;
  if (series.empty()) return std::nullopt;
  const SeriesPoint& last = series.back();
  const auto blocks = blocks_of(series, kSecond / 4);
  const BootNs age = last.at - birth;
  // A longer look, or one that saw all of it, tells by itself.
  const BootNs watched = last.at - series.front().at;
  if (watched > kLongest || watched > age / 5 * 4 || last.value < 2 * least) return std::nullopt;
  if (blocks.size() < 6 || watched < kShortest || age < kYoungest) return std::nullopt;
  const double rise = blocks.back().least - blocks.front().least;
  if (rise < least) return std::nullopt;
  for (size_t third = 0; third < 3; ++third) {
    const double step = blocks[(third + 1) * (blocks.size() - 1) / 3].least -
                        blocks[third * (blocks.size() - 1) / 3].least;
    if (step < kLeastOfThird * rise) return std::nullopt;
  }
  const double seconds = static_cast<double>(blocks.back().at - blocks.front().at) / kSecond;
  const double of_life = last.value / (static_cast<double>(age) / kSecond);
  if (std::abs(rise / seconds / of_life - 1) > kMostOff) return std::nullopt;
  return Growth{.from = birth,
                .to = last.at,
                .per_second = of_life,
                .least_per_second = of_life * (1 - kMostOff),
                .value = last.value,
                .is_brief = true,
                .is_by_age = true,
                .p = kMostChance};
}

std::optional<Growth> find_growth_of_life(std::span<const SeriesPoint> series, double least) {
  constexpr BootNs kShortest = 4 * kSecond;
  constexpr size_t kParts = 5;
  constexpr double kLeastOfPart = 0.1;
  constexpr double kMostFall = 0.1;
  const auto blocks = blocks_of(series, kSecond / 4);
  if (blocks.size() <= 2 * kParts || blocks.back().at - blocks.front().at < kShortest)
    return std::nullopt;
  const double rise = blocks.back().least - blocks.front().least;
  if (rise < least || deepest_fall(blocks) > kMostFall * rise) return std::nullopt;
  for (size_t part = 0; part < kParts; ++part) {
    const double step = blocks[(part + 1) * (blocks.size() - 1) / kParts].least -
                        blocks[part * (blocks.size() - 1) / kParts].least;
    if (step < kLeastOfPart * rise) return std::nullopt;
  }
  const BootNs from = blocks.front().at;
  const BootNs to = series.back().at;
  const double per_second = rise / (static_cast<double>(blocks.back().at - from) / kSecond);
  return Growth{.from = from,
                .to = to,
                .per_second = per_second,
                .least_per_second = kLeastOfPart * static_cast<double>(kParts) * per_second,
                .value = series.back().value,
                .is_brief = true,
                .p = kMostChance};
}

std::optional<double> slowest_growth_found(BootNs watched) {
  std::vector<Tier> tiers(kTiers.begin(), kTiers.end());
  tiers.insert(tiers.end(), kBriefTiers.begin(), kBriefTiers.end());
  return slowest_in(watched, tiers);
}

std::optional<double> slowest_count_growth_found(BootNs watched, const LeastRise& least) {
  return slowest_in(watched, count_tiers(least));
}

std::optional<double> time_to_limit(const Growth& growth, double headroom, double times_of_watch) {
  const double seconds = std::max(headroom, 0.0) / growth.per_second;
  const double watched = static_cast<double>(growth.to - growth.from) / kSecond;
  return seconds <= times_of_watch * watched ? std::optional(seconds) : std::nullopt;
}

bool reaches_limit_soon(const Growth& growth, double headroom) {
  constexpr double kSoon = 600;
  constexpr double kTimesOfWatch = 3;
  const auto seconds = time_to_limit(growth, headroom, kTimesOfWatch);
  return !growth.is_brief && seconds && *seconds < kSoon;
}

}  // namespace dlprobe
