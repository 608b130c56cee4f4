#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/model/recording_view.h"
#include "lib/model/tuning.h"

namespace dlprobe::probes::tune {

/// All runs of one setting.
struct Series {
  TuneSetting setting;
  std::vector<const SpeedMeasurement*> runs;  ///< that gave a speed
  const SpeedMeasurement* failed = nullptr;   ///< the last one that gave none
  bool was_started = true;                    ///< false: it would not have fitted
  double log_speed = 0;                       ///< of batches per second; where there are runs
};

/// What the runs of `dlprobe tune` say of each setting, and how far they can be trusted.
///
/// The logarithm of a run's speed is the setting's, plus that of its round (a machine is slower for
/// some minutes than for others, and runs of one round stand near to one another), plus noise,
/// which is as large for all settings: a randomised block design. With few repeats the noise is not
/// known well, so that three more of 3 % are assumed.
class Table {
 public:
  explicit Table(const RecordingView& recording);

  const std::vector<Series>& series() const { return series_; }
  const Series* find(const TuneSetting& setting) const;
  /// Standard deviation of the logarithm of one run's speed.
  double noise() const { return noise_; }
  /// Half of the 95 % interval (Student's t) of the logarithm of a speed, and of the ratio of two.
  double half_width(const Series& one) const;
  double half_width(const Series& one, const Series& other) const;

 private:
  using RoundEffects = std::map<int32_t, double>;  ///< of the logarithm, by round
  void fit();
  void fit_settings(const RoundEffects& rounds);
  void fit_noise(const RoundEffects& rounds);
  double quantile() const;

  std::vector<Series> series_;
  double noise_ = 0;
  double freedom_ = 0;
};

/// What is asked of a table, and what the answer rests on. Pointers into the table.
struct Choice {
  const Series* best = nullptr;     ///< the fastest whole loader
  const Series* chosen = nullptr;   ///< the smallest within 5 % of it
  const Series* present = nullptr;  ///< what the job has now
};
Choice choose(const Table& table, const TuneRequest& request);

/// As fast as another for all that one could want: 5 % less at the most.
inline constexpr double kGoodShare = 0.95;

/// Whether `one` is at least 95 % as fast as `other`, beyond the noise.
bool is_surely_enough(const Table& table, const Series& one, const Series& other);
/// Whether it is less than that, beyond the noise.
bool is_surely_slower(const Table& table, const Series& one, const Series& other);
/// Whether `one` has fewer workers, or as many and fewer batches in flight.
bool is_smaller(const TuneRequest& request, const TuneSetting& one, const TuneSetting& other);

/// The request of the examination; null if it is none of `dlprobe tune`.
const TuneRequest* find_request(const RecordingView& recording);

/// The setting that the job has now: what was said of it, and the first of the others.
std::optional<TuneSetting> present_setting(const TuneRequest& request);

/// Threads of all processes that ran or wanted to run, on average over the windows of the runs;
/// nothing where that was not read.
std::optional<double> wanted_cpus(const Series& series);

/// CPU time of the workers of the last run.
struct WorkerCpu {
  int workers = 0;
  int busy_threads = 0;       ///< of all
  int most_busy_threads = 0;  ///< of one worker
  double ran_s = 0;
  double queued_s = 0;
  uint64_t preempted = 0;
};
WorkerCpu cpu_of_workers(const Series& series);

/// Whether the workers' own threads want more CPUs than there are, and wait for them.
bool is_oversubscribed(const Series& series, const TuneRequest& request);

}  // namespace dlprobe::probes::tune
