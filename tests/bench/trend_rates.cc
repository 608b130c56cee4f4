// How often the trend detector of `dlprobe memory` cries wolf, and how soon it finds a leak: on
// made-up series, not on a machine.
//
//   trend_rates [SEED [RUNS [HOURS]]]
//
// RUNS series of 600 s of each family and HOURS-long ones, seen as the probe sees them: at 10 Hz
// for 2 minutes, at 1 Hz for 10, at 0.1 Hz before. Looked at every 2 s (every 20 s after an hour).

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "probes/facts/trend.h"

namespace dlprobe {
namespace {

constexpr double kRate = 10;  // samples a second
constexpr double kHeadroom = 2e9;
constexpr double kMB = 1e6;

using Random = std::mt19937_64;

double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution(low, high)(random);
}
double normal(Random& random, double deviation) {
  return std::normal_distribution(0.0, deviation)(random);
}

// What every process has on top: AR(1), 0.5 to 4 MB.
class Noise {
 public:
  explicit Noise(Random& random)
      : random_(&random),
        phi_(std::vector{0.0, 0.9, 0.98, 0.998}[std::uniform_int_distribution(0, 3)(random)]),
        deviation_(uniform(random, 0.5, 4) * kMB) {
    value_ = normal(random, deviation_);
  }
  double next() {
    value_ = phi_ * value_ + normal(*random_, deviation_ * std::sqrt(1 - phi_ * phi_));
    return value_;
  }

 private:
  Random* random_;
  double phi_;
  double deviation_;
  double value_ = 0;
};

// A family gives, for one series, the value at each time without the noise.
using Shape = std::function<double(double)>;
struct Family {
  std::string name;
  std::function<Shape(Random&)> draw;
};

Shape sawtooth(Random& random, double shortest, double longest) {
  const double period = uniform(random, shortest, longest);
  const double height = uniform(random, 5, 70) * kMB;
  const double phase = uniform(random, 0, period);
  return [=](double t) { return height * std::fmod(t + phase, period) / period; };
}

Shape warm_up(Random& random) {
  const double height = uniform(random, 20, 300) * kMB;
  const double tau = uniform(random, 3, 60);
  return [=](double t) { return height * (1 - std::exp(-t / tau)); };
}

// Fills at an even rate, then stays: a bounded cache.
Shape plateau(Random& random) {
  const double height = uniform(random, 10, 300) * kMB;
  const double until = uniform(random, 2, 25);
  return [=](double t) { return height * std::min(1.0, t / until); };
}

Shape steps(Random& random) {
  std::vector<std::pair<double, double>> all;
  const int count = std::uniform_int_distribution(1, 3)(random);
  for (int i = 0; i < count; ++i)
    all.emplace_back(uniform(random, 0, 600), uniform(random, 5, 60) * kMB);
  return [all](double t) {
    double sum = 0;
    for (const auto& [at, height] : all)
      sum += t >= at ? height : 0;
    return sum;
  };
}

Shape bursts(Random& random) {
  const double height = uniform(random, 10, 150) * kMB;
  const double gap = uniform(random, 2, 40);
  auto until = std::make_shared<double>(0);
  auto next = std::make_shared<double>(uniform(random, 0, gap));
  auto own = std::make_shared<Random>(random());
  return [=](double t) {
    if (t >= *next) {
      *until = t + uniform(*own, 0.2, 4);
      *next = *until + uniform(*own, 0.5, 2) * gap;
    }
    return t < *until ? height : 0;
  };
}

Shape random_walk(Random& random) {
  const double step = uniform(random, 0.5, 6) * kMB / std::sqrt(6000.0);
  auto own = std::make_shared<Random>(random());
  auto value = std::make_shared<double>(0);
  return [=](double) { return *value += normal(*own, step); };
}

// The first batches of each epoch take memory that the epoch's end gives back.
Shape epochs(Random& random) {
  const double period = uniform(random, 20, 200);
  const double height = uniform(random, 10, 200) * kMB;
  const double rise = uniform(random, 1, std::min(20.0, period / 3));
  return [=](double t) { return height * std::min(1.0, std::fmod(t, period) / rise); };
}

Shape leak(double bytes_per_second) {
  return [=](double t) { return bytes_per_second * t; };
}

Shape warm_up_and_leak(Random& random, double bytes_per_second) {
  return [=, first = warm_up(random)](double t) { return first(t) + bytes_per_second * t; };
}

std::vector<Family> healthy_families() {
  return {
      {"flat", [](Random&) { return [](double) { return 0.0; }; }},
      {"sawtooth 3-60 s", [](Random& r) { return sawtooth(r, 3, 60); }},
      {"sawtooth 80-250 s", [](Random& r) { return sawtooth(r, 80, 250); }},
      {"warm-up", warm_up},
      {"plateau", plateau},
      {"1-3 steps", steps},
      {"bursts", bursts},
      {"random walk", random_walk},
      {"epochs", epochs},
  };
}

// The series as the recording keeps it.
class Kept {
 public:
  void add(SeriesPoint point) {
    points_.push_back(point);
    if (point.at - thinned_at_ < 30 * kSecond) return;
    thinned_at_ = point.at;
    std::vector<SeriesPoint> kept;
    for (const SeriesPoint& each : points_) {
      const BootNs age = point.at - each.at;
      BootNs width = 10 * kSecond;
      if (age <= 600 * kSecond) width = kSecond;
      const bool same =
          age > 120 * kSecond && !kept.empty() && kept.back().at / width == each.at / width;
      if (same) {
        kept.back() = each;
      } else {
        kept.push_back(each);
      }
    }
    points_ = std::move(kept);
  }
  const std::vector<SeriesPoint>& points() const { return points_; }

 private:
  std::vector<SeriesPoint> points_;
  BootNs thinned_at_ = 0;
};

struct Outcome {
  std::optional<double> warned_at;
  bool error = false;
  double rate = 0;          // as told first
  double limit_off_by = 0;  // of the time to the limit, relative
};

Outcome watch(const Family& family, uint64_t seed, double seconds, double slope) {
  Random random(seed);
  const Shape shape = family.draw(random);
  Noise noise(random);
  const double base = uniform(random, 60, 400) * kMB;
  Kept kept;
  Outcome outcome;
  double next_look = 10;
  const auto count = static_cast<int64_t>(seconds * kRate);
  for (int64_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / kRate;
    const double value = base + shape(t) + noise.next();
    kept.add({static_cast<BootNs>(t * kSecond), value});
    if (t < next_look) continue;
    next_look += t < 3600 ? 2 : 20;
    const auto growth = find_growth(kept.points());
    if (!growth) continue;
    outcome.error = outcome.error || reaches_limit_soon(*growth, kHeadroom);
    if (!outcome.warned_at) {
      outcome.warned_at = t;
      outcome.rate = growth->per_second;
      if (slope > 0) outcome.limit_off_by = std::abs(slope / growth->per_second - 1);
    }
    if (slope > 0) break;
  }
  return outcome;
}

double percent(size_t part, size_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void false_alarms(uint64_t seed, int runs, double seconds) {
  size_t all = 0;
  size_t all_warned = 0;
  size_t all_errors = 0;
  for (const Family& family : healthy_families()) {
    size_t warned = 0;
    size_t errors = 0;
    for (int run = 0; run < runs; ++run) {
      const Outcome outcome = watch(family, seed + static_cast<uint64_t>(run) * 7919, seconds, 0);
      warned += outcome.warned_at ? 1 : 0;
      errors += outcome.error ? 1 : 0;
    }
    fmt::print("  {:<20} false warnings {:5.1f} %   errors {:5.1f} %\n", family.name,
               percent(warned, static_cast<size_t>(runs)),
               percent(errors, static_cast<size_t>(runs)));
    all += static_cast<size_t>(runs);
    all_warned += warned;
    all_errors += errors;
  }
  fmt::print("  {:<20} false warnings {:5.1f} %   errors {:5.1f} %   ({:.1f} h)\n", "all",
             percent(all_warned, all), percent(all_errors, all),
             static_cast<double>(all) * seconds / 3600);
}

void delays(uint64_t seed, int runs, double megabytes, bool warms_up) {
  const double slope = megabytes * kMB;
  const Family family = {"leak", [=](Random& random) {
                           return warms_up ? warm_up_and_leak(random, slope) : leak(slope);
                         }};
  std::vector<double> found;
  std::vector<double> off;
  for (int run = 0; run < runs; ++run) {
    const Outcome outcome = watch(family, seed + static_cast<uint64_t>(run) * 104729, 1800, slope);
    if (!outcome.warned_at) continue;
    found.push_back(*outcome.warned_at);
    off.push_back(outcome.limit_off_by);
  }
  std::ranges::sort(found);
  std::ranges::sort(off);
  const auto at = [](const std::vector<double>& values, double share) {
    return values.empty()
               ? NAN
               : values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  fmt::print(
      "  {:<22} found {:5.1f} %   after {:4.0f} s (95 %: {:4.0f} s, worst {:4.0f} s)   time to "
      "limit off by {:4.1f} % (95 %: {:4.1f} %)\n",
      fmt::format("{} MB/s{}", megabytes, warms_up ? " after warm-up" : ""),
      percent(found.size(), static_cast<size_t>(runs)), at(found, 0.5), at(found, 0.95),
      at(found, 1), 100 * at(off, 0.5), 100 * at(off, 0.95));
}

void cost() {
  std::vector<SeriesPoint> series;
  Random random(1);
  for (int i = 0; i < 4000; ++i)
    series.push_back({.at = i * kSecond / 10, .value = 1e8 + i * 1e5 + normal(random, 1e6)});
  const auto before = std::chrono::steady_clock::now();
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; ++i) {
    if (!find_growth(series)) std::abort();
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - before;
  fmt::print("cost: {:.0f} us for a leaking series of {} values\n", spent.count() / kTimes,
             series.size());
}

}  // namespace
}  // namespace dlprobe

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto argument = [&](size_t index, uint64_t otherwise) {
    return arguments.size() > index ? std::stoull(arguments[index]) : otherwise;
  };
  const uint64_t seed = argument(0, 20261122);
  const auto runs = static_cast<int>(argument(1, 100));
  const auto hours = static_cast<double>(argument(2, 10));
  fmt::print("seed {}\nhealthy series of 600 s, {} of each family:\n", seed, runs);
  dlprobe::false_alarms(seed, runs, 600);
  if (hours > 0) {
    fmt::print("healthy series of {} h, {} of each family:\n", hours, runs / 10);
    dlprobe::false_alarms(seed + 1, runs / 10, hours * 3600);
  }
  fmt::print("leaks:\n");
  for (const double rate : {0.1, 0.5, 1.0, 2.0, 4.0, 10.0})
    dlprobe::delays(seed + 2, runs, rate, false);
  dlprobe::delays(seed + 3, runs, 0.5, true);
  dlprobe::cost();
  return 0;
}
