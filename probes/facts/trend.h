#pragma once

#include <optional>
#include <span>

#include "lib/model/ids.h"

namespace dlprobe {

/// One value of a series in time order, in bytes or any other unit. Times need not be even.
struct SeriesPoint {
  BootNs at = 0;
  double value = 0;
};

/// The trend test of Mann and Kendall, ties corrected, for values in time order.
struct MannKendall {
  double s = 0;         ///< pairs that rise, less pairs that fall
  double variance = 0;  ///< of s, where there is no trend
  double z = 0;         ///< with the correction for continuity
  double p = 1;         ///< one-sided: the chance of such a rise without a trend
};
MannKendall mann_kendall(std::span<const double> values);

/// The slope of Theil and Sen: the median over all pairs, and the interval that holds it with
/// `confidence`, by Sen's ranks. As scipy.stats.theilslopes has it.
struct TheilSen {
  double slope = 0;
  double lower = 0;
  double upper = 0;
};
TheilSen theil_sen(std::span<const double> times, std::span<const double> values,
                   double confidence);

/// Values that rise and do not look as if they would stop.
struct Growth {
  BootNs from = 0;  ///< of the stretch that shows it
  BootNs to = 0;
  double per_second = 0;         ///< Theil and Sen's slope
  double least_per_second = 0;   ///< the lower end of its 98 % interval
  double value = 0;              ///< at the end of the stretch
  bool is_long_watched = false;  ///< by a stretch of at least four minutes
  bool is_brief = false;         ///< a line, but seen for so short that it may come to an end yet
  bool is_by_age = false;        ///< told by a short look and the age of what grows
  double p = 1;                  ///< of the trend test
};

/// What grows steadily at the end of the series, of which the lower envelope counts: minima of
/// blocks of 2, 20 and 120 s. Silent on what saturates (a warm-up, a cache that fills), on single
/// steps, and on what has fallen before by half of what it has now grown by (a sawtooth, epochs).
///
/// A steep growth (64 MiB and more) is found in 28 s, one of 8 MiB takes four minutes, a very slow
/// one of 48 MiB half an hour or more. Rates of false alarms: tests/bench/trend_rates.cc.
std::optional<Growth> find_growth(std::span<const SeriesPoint> series);

/// The same of bytes; else what rises along a line for the last 12 s and by 48 MiB. A cache that
/// fills does so, too, until it is full. Else, of what began at `birth` and goes on, by its age.
std::optional<Growth> find_byte_growth(std::span<const SeriesPoint> series,
                                       std::optional<BootNs> birth);

/// By how much a count has to rise before it is told from what fills and is full.
struct LeastRise {
  double at_once = 0;  ///< along a line for the last 8 s, or steadily for minutes
  double in_16_s = 0;  ///< along a line for the last 16 to 24 s
  double by_age = 0;   ///< in a short look, at the rate that made what there is since its birth
  double of_life = 0;  ///< from the birth to the end of a process
};
inline constexpr LeastRise kRiseOfDescriptors = {.at_once = 64, .in_16_s = 32, .by_age = 16};
inline constexpr LeastRise kRiseOfMappings = {.at_once = 500, .in_16_s = 500};
inline constexpr LeastRise kRiseOfThreads = {
    .at_once = 32, .in_16_s = 32, .by_age = 10, .of_life = 64};
inline constexpr LeastRise kRiseOfWorkers = {.at_once = 16, .in_16_s = 16, .by_age = 12};
inline constexpr LeastRise kRiseOfProcesses = {.at_once = 64, .in_16_s = 64, .of_life = 64};
inline constexpr LeastRise kRiseOfNamedFiles = {.at_once = 32, .in_16_s = 32};

/// A count that rises along a line, or steadily for the last minutes; else, of what began at
/// `birth` and goes on, by its age.
std::optional<Growth> find_count_growth(std::span<const SeriesPoint> series, const LeastRise& least,
                                        std::optional<BootNs> birth = {});

/// What a look of 2 to 20 s proves of something that began at `birth`, 20 s or longer ago: it
/// grows, by `least` or more, at the rate that makes as much as it has by now, which is twice that.
std::optional<Growth> find_growth_since(BootNs birth, std::span<const SeriesPoint> series,
                                        double least);

/// What became more all the time from the birth of a process to its end, 4 s or longer, and by
/// `least` or more. What fills in a part of that time is none.
std::optional<Growth> find_growth_of_life(std::span<const SeriesPoint> series, double least);

/// The slowest growth in bytes a second that `find_byte_growth` finds in a watch of that
/// length; nothing: too short for any.
std::optional<double> slowest_growth_found(BootNs watched);
/// The same of a count.
std::optional<double> slowest_count_growth_found(BootNs watched, const LeastRise& least);

/// Seconds until what grows has taken `headroom` more; nothing where that cannot be said honestly:
/// further ahead than `times_of_watch` times the stretch that was seen to grow.
std::optional<double> time_to_limit(const Growth& growth, double headroom,
                                    double times_of_watch = 1e9);

/// Whether an error may be made of it: it is there within ten minutes, and no more than three times
/// the stretch that was seen to grow away.
bool reaches_limit_soon(const Growth& growth, double headroom);

}  // namespace dlprobe
