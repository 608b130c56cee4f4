#include "probes/facts/trend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

// Computed by pymannkendall's original_test and scipy.stats.theilslopes(y, x, 0.98), scipy 1.17.
struct Reference {
  std::string name;
  std::vector<double> times;
  std::vector<double> values;
  double s, variance, z, p, slope, lower, upper;
};
const std::vector<Reference> kReferences = {
    {"a line with noise",
     {0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0, 160.0, 180.0, 200.0, 220.0},
     {101.219, 98.84, 109.002, 112.762, 104.196, 109.791, 118.511, 119.735, 123.933, 123.588,
      133.518, 136.111},
     56.0,
     212.66666666666666,
     3.771490147280579,
     8.113778323802151e-05,
     0.1600475,
     0.10418571428571427,
     0.22796428571428565},
    {"many ties",
     {0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 24.0, 26.0, 28.0},
     {5.0, 5.0, 6.0, 5.0, 7.0, 7.0, 7.0, 6.0, 8.0, 8.0, 7.0, 9.0, 9.0, 9.0, 8.0},
     71.0,
     387.6666666666667,
     3.5552390706571457,
     0.00018881777779917913,
     0.14285714285714285,
     0.07142857142857142,
     0.1875},
    {"falls",
     {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0},
     {50.198, 51.382, 47.403, 41.422, 43.106, 37.123, 40.635, 35.85, 33.445, 29.957},
     -39.0,
     125.0,
     -3.3988233257996803,
     0.9996616179099395,
     -2.326333333333333,
     -3.4879999999999995,
     -1.3975000000000009},
    {"uneven times",
     {1.0, 5.0, 7.0, 11.0, 14.0, 18.0, 22.0, 23.0, 25.0, 27.0, 29.0, 30.0, 33.0, 34.0, 37.0, 40.0,
      44.0, 47.0, 49.0},
     {-0.524, 0.872, 4.732, 7.758, 6.772, 7.32, 9.351, 12.801, 13.987, 14.586, 13.169, 15.464,
      16.733, 17.437, 20.243, 20.447, 23.358, 23.635, 25.078},
     163.0,
     817.0,
     5.667662571184689,
     7.237934244711305e-09,
     0.5213333333333332,
     0.46212499999999995,
     0.5824814814814814},
    {"no trend",
     {0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0, 160.0, 180.0, 200.0, 220.0},
     {13.156, 2.714, 8.402, 7.648, 6.806, 8.624, 17.475, 5.671, 14.841, 1.586, 8.326, 10.814},
     2.0,
     212.66666666666666,
     0.06857254813237416,
     0.47266493541635,
     0.004271428571428586,
     -0.06427777777777778,
     0.073875},
    {"all the same",
     {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0},
     {4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0},
     0.0,
     0.0,
     0.0,
     0.5,
     0.0,
     0.0,
     0.0},
};

TEST(Trend, AgreesWithScipyAndPyMannKendall) {
  for (const Reference& reference : kReferences) {
    SCOPED_TRACE(reference.name);
    const MannKendall test = mann_kendall(reference.values);
    EXPECT_DOUBLE_EQ(test.s, reference.s);
    EXPECT_NEAR(test.variance, reference.variance, 1e-9);
    EXPECT_NEAR(test.z, reference.z, 1e-9);
    EXPECT_NEAR(test.p, reference.p, 1e-9);
    const TheilSen slope = theil_sen(reference.times, reference.values, 0.98);
    EXPECT_NEAR(slope.slope, reference.slope, 1e-9);
    EXPECT_NEAR(slope.lower, reference.lower, 1e-9);
    EXPECT_NEAR(slope.upper, reference.upper, 1e-9);
  }
}

constexpr double kMB = 1e6;

// 100 MB, what `shape` adds, and 1 MB of noise, at 10 Hz.
std::vector<SeriesPoint> series_of(double seconds, const std::function<double(double)>& shape) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, 1 * kMB);
  std::vector<SeriesPoint> series;
  for (int i = 0; i < static_cast<int>(seconds * 10); ++i) {
    const double t = i / 10.0;
    series.push_back({.at = i * (kSecond / 10), .value = 100 * kMB + shape(t) + noise(random)});
  }
  return series;
}

TEST(FindGrowth, ASteepLeakIsFoundIn30Seconds) {
  const auto growth = find_growth(series_of(30, [](double t) { return 4 * kMB * t; }));
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->per_second, 4 * kMB, 0.4 * kMB);
  EXPECT_LT(growth->least_per_second, growth->per_second);
  EXPECT_FALSE(growth->is_long_watched);
}

TEST(FindGrowth, ASlowLeakIsFoundIn260Seconds) {
  const auto growth = find_growth(series_of(265, [](double t) { return 0.5 * kMB * t; }));
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->per_second, 0.5 * kMB, 0.05 * kMB);
  EXPECT_TRUE(growth->is_long_watched);
  EXPECT_NEAR(must(time_to_limit(*growth, 1000 * kMB)), 2000, 200);
}

TEST(FindGrowth, WhatWasThinnedWithAgeStillTells) {
  std::vector<SeriesPoint> kept;
  for (const SeriesPoint& point : series_of(3000, [](double t) { return 0.03 * kMB * t; })) {
    if (point.at < 2400 * kSecond && point.at % (10 * kSecond) != 0) continue;
    if (point.at < 2880 * kSecond && point.at % kSecond != 0) continue;
    kept.push_back(point);
  }
  EXPECT_NEAR(must(find_growth(kept)).per_second, 0.03 * kMB, 0.006 * kMB);
}

struct Healthy {
  std::string name;
  std::function<double(double)> shape;
};

TEST(FindGrowth, IsSilentOnWhatIsHealthy) {
  const std::vector<Healthy> all = {
      {"flat", [](double) { return 0.0; }},
      {"warm-up", [](double t) { return 200 * kMB * (1 - std::exp(-t / 15)); }},
      {"cache that fills", [](double t) { return 200 * kMB * std::min(1.0, t / 20); }},
      {"sawtooth of 5 s", [](double t) { return 40 * kMB * std::fmod(t, 5) / 5; }},
      {"sawtooth of 100 s", [](double t) { return 60 * kMB * std::fmod(t, 100) / 100; }},
      {"large sawtooth that fell before",
       [](double t) { return 400 * kMB * std::fmod(t, 200) / 200; }},
      {"one step", [](double t) { return t > 150 ? 60 * kMB : 0; }},
      {"three epochs", [](double t) { return 150 * kMB * std::min(1.0, std::fmod(t, 100) / 10); }},
      {"falls", [](double t) { return -0.1 * kMB * t; }},
  };
  for (const Healthy& each : all) {
    // The first ramp of the large sawtooth looks like a leak until it falls.
    const double from = each.name.starts_with("large") ? 225 : 20;
    for (double seconds = from; seconds <= 400; seconds += 10)
      EXPECT_FALSE(find_growth(series_of(seconds, each.shape))) << each.name << ", " << seconds;
  }
}

TEST(FindGrowth, NothingIsSaidOfTooFewValues) {
  EXPECT_FALSE(find_growth({}));
  EXPECT_FALSE(find_growth(series_of(15, [](double t) { return 50 * kMB * t; })));
}

// Of a count at 10 Hz, without noise.
std::vector<SeriesPoint> counts_of(double seconds, const std::function<double(double)>& shape) {
  std::vector<SeriesPoint> series;
  for (int i = 0; i < static_cast<int>(seconds * 10); ++i)
    series.push_back({.at = i * (kSecond / 10), .value = 30 + std::floor(shape(i / 10.0))});
  return series;
}

TEST(StraightGrowth, IsFoundIn15Seconds) {
  const auto line = [](double t) { return 7 * kMB * t; };
  const auto growth = must(find_byte_growth(series_of(15, line), {}));
  EXPECT_TRUE(growth.is_brief);
  EXPECT_NEAR(growth.per_second, 7 * kMB, 0.5 * kMB);
  EXPECT_FALSE(reaches_limit_soon(growth, 10 * kMB));
  EXPECT_FALSE(must(find_byte_growth(series_of(40, line), {})).is_brief);
}

TEST(StraightGrowth, IsNoWarmUpNoStepAndNothingThatStopped) {
  const std::vector<Healthy> all = {
      {"warm-up", [](double t) { return 150 * kMB * (1 - std::exp(-t / 4)); }},
      {"filled", [](double t) { return 10 * kMB * std::min(t, 10.0); }},
      {"two steps", [](double t) { return 60 * kMB * (t > 4 ? t > 10 ? 2 : 1 : 0); }},
      {"sawtooth", [](double t) { return 20 * kMB * std::fmod(t, 5); }},
      {"slow", [](double t) { return 2 * kMB * t; }},
  };
  for (const Healthy& each : all) {
    for (double seconds = 13; seconds <= 25; ++seconds)
      EXPECT_FALSE(find_byte_growth(series_of(seconds, each.shape), {})) << each.name << seconds;
  }
}

TEST(CountGrowth, IsFoundIn10Seconds) {
  const auto growth =
      find_count_growth(counts_of(10.5, [](double t) { return 44 * t; }), kRiseOfDescriptors);
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->per_second, 44, 1);
}

TEST(CountGrowth, AFewPerSecondAreFoundIn18Seconds) {
  const auto line = [](double t) { return 3 * t; };
  EXPECT_FALSE(find_count_growth(counts_of(12, line), kRiseOfDescriptors));
  EXPECT_TRUE(find_count_growth(counts_of(18, line), kRiseOfDescriptors));
}

TEST(CountGrowth, IsFoundWhereALookASecondIsMissed) {
  std::vector<SeriesPoint> seldom;
  for (int i = 0; i < 14; ++i)
    seldom.push_back({.at = i * (kSecond + kSecond / 10), .value = 220.0 * i});
  EXPECT_TRUE(find_count_growth(seldom, kRiseOfMappings));
}

TEST(CountGrowth, IsNoCacheThatIsFullAndNoTide) {
  const std::vector<Healthy> all = {
      {"filled", [](double t) { return 44 * std::min(t, 6.0); }},
      {"tide", [](double t) { return 44 * std::fmod(t, 5); }},
      {"few", [](double t) { return t; }},
      {"a cache of 32", [](double t) { return std::min(3 * t, 32.0); }},
      {"hits", [](double t) { return 90 * (1 - std::exp(-t / 12)); }},
  };
  for (const Healthy& each : all) {
    for (double seconds = 10; seconds <= 30; ++seconds)
      EXPECT_FALSE(find_count_growth(counts_of(seconds, each.shape), kRiseOfDescriptors))
          << each.name << seconds;
  }
}

TEST(GrowthSinceBirth, IsProvedByAShortLookAndTheAge) {
  const auto look = [](BootNs age, double had, double rate, int ticks = 30) {
    std::vector<SeriesPoint> series;
    for (int i = 0; i < ticks; ++i)
      series.push_back({.at = age + i * (kSecond / 10), .value = std::floor(had + rate * i / 10)});
    return find_growth_since(0, series, 16);
  };
  const auto growth = must(look(100 * kSecond, 4430, 44));
  EXPECT_NEAR(growth.per_second, 44, 2);
  EXPECT_TRUE(growth.is_brief);
  EXPECT_FALSE(look(100 * kSecond, 400, 44)) << "it began later";
  EXPECT_FALSE(look(100 * kSecond, 4430, 2)) << "it goes on no more";
  EXPECT_FALSE(look(10 * kSecond, 440, 44)) << "it may be its start";
  EXPECT_TRUE(look(12 * kSecond, 36, 3, 152)) << "a look of 15 s that began early";
  EXPECT_FALSE(look(6 * kSecond, 7, 1.3, 145)) << "so few fill a pool";
}

TEST(SlowestGrowth, FallsWithTheTime) {
  EXPECT_FALSE(slowest_growth_found(10 * kSecond));
  const auto in_15_s = slowest_growth_found(15 * kSecond);
  const auto in_5_min = slowest_growth_found(300 * kSecond);
  ASSERT_TRUE(in_15_s && in_5_min);
  EXPECT_LT(*in_15_s, 7 * kMB);
  EXPECT_LT(*in_5_min, 0.1 * kMB);
  EXPECT_TRUE(slowest_count_growth_found(11 * kSecond, kRiseOfDescriptors));
}

TEST(TimeToLimit, AForecastReachesNoFurtherThanItMay) {
  const Growth growth = {.from = 0, .to = 30 * kSecond, .per_second = 10};
  EXPECT_DOUBLE_EQ(time_to_limit(growth, 500).value_or(0), 50);
  EXPECT_FALSE(time_to_limit(growth, 500, 1));
  EXPECT_TRUE(reaches_limit_soon(growth, 899));
  EXPECT_FALSE(reaches_limit_soon(growth, 901)) << "more than three times of what was watched";
  const Growth slow = {.from = 0, .to = 3000 * kSecond, .per_second = 10};
  EXPECT_TRUE(reaches_limit_soon(slow, 5990));
  EXPECT_FALSE(reaches_limit_soon(slow, 6010)) << "more than ten minutes away";
  EXPECT_DOUBLE_EQ(time_to_limit(growth, -5).value_or(1), 0) << "over the limit already";
}

}  // namespace
}  // namespace dlprobe
