#include "probes/tune/table.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace dlprobe::probes::tune {
namespace {

// What is assumed of the noise before repeats tell it, and how many repeats that is worth.
constexpr double kAssumedNoise = 0.03;
constexpr double kAssumedFreedom = 3;

bool has_speed(const SpeedMeasurement& speed) {
  return speed.failure.empty() && speed.batches > 0 && speed.window_s > 0 &&
         std::isfinite(speed.window_s);
}

double log_speed_of(const SpeedMeasurement& speed) {
  return std::log(static_cast<double>(speed.batches) / speed.window_s);
}

// The mean of what each round has beside its settings, against the first round, which all settings
// are in. Returns how far the furthest has moved.
double fit_rounds(const std::vector<Series>& all, std::map<int32_t, double>& rounds) {
  std::map<int32_t, std::pair<double, int>> sums;
  for (const Series& series : all) {
    for (const SpeedMeasurement* run : series.runs) {
      sums[run->round].first += log_speed_of(*run) - series.log_speed;
      ++sums[run->round].second;
    }
  }
  if (sums.empty()) return 0;
  const double first = sums.begin()->second.first / sums.begin()->second.second;
  double moved = 0;
  for (const auto& [round, sum] : sums) {
    const double now = sum.first / sum.second - first;
    moved = std::max(moved, std::abs(now - rounds[round]));
    rounds[round] = now;
  }
  return moved;
}

// The place of a start method among those asked for: the first is what one would rather have.
size_t rank_of(const TuneRequest& request, StartMethod method) {
  const auto place = std::ranges::find(request.start_methods, method);
  return static_cast<size_t>(place - request.start_methods.begin());
}

}  // namespace

Table::Table(const RecordingView& recording) {
  for (const Run& run : recording.runs) {
    if (!run.speed) continue;
    const SpeedMeasurement& speed = *run.speed;
    auto place = std::ranges::find(series_, speed.setting, &Series::setting);
    if (place == series_.end()) {
      series_.push_back({.setting = speed.setting});
      place = series_.end() - 1;
    }
    if (has_speed(speed)) {
      place->runs.push_back(&speed);
    } else {
      place->failed = &speed;
      place->was_started = !run.end || run.end->reason != RunEndReason::kNotStarted;
    }
  }
  fit();
}

const Series* Table::find(const TuneSetting& setting) const {
  const auto place = std::ranges::find(series_, setting, &Series::setting);
  return place == series_.end() ? nullptr : &*place;
}

// Means of settings and means of rounds in turns, until both stand still: the least squares of an
// additive model, also where not every setting is in every round.
void Table::fit() {
  constexpr int kTurns = 100;
  constexpr double kStill = 1e-6;
  RoundEffects rounds;
  for (const Series& series : series_) {
    for (const SpeedMeasurement* run : series.runs)
      rounds[run->round] = 0;
  }
  fit_settings(rounds);
  for (int turn = 0; turn < kTurns && fit_rounds(series_, rounds) > kStill; ++turn)
    fit_settings(rounds);
  fit_noise(rounds);
}

void Table::fit_settings(const RoundEffects& rounds) {
  for (Series& series : series_) {
    double sum = 0;
    for (const SpeedMeasurement* run : series.runs)
      sum += log_speed_of(*run) - rounds.at(run->round);
    if (!series.runs.empty()) series.log_speed = sum / static_cast<double>(series.runs.size());
  }
}

void Table::fit_noise(const RoundEffects& rounds) {
  double squares = 0;
  double runs = 0;
  double settings = 0;
  for (const Series& series : series_) {
    settings += series.runs.empty() ? 0 : 1;
    for (const SpeedMeasurement* run : series.runs) {
      squares += std::pow(log_speed_of(*run) - series.log_speed - rounds.at(run->round), 2);
      ++runs;
    }
  }
  const double known =
      std::max(runs - settings - std::max(static_cast<double>(rounds.size()) - 1, 0.0), 0.0);
  freedom_ = known + kAssumedFreedom;
  noise_ = std::sqrt((squares + kAssumedFreedom * kAssumedNoise * kAssumedNoise) / freedom_);
}

// Of Student's t at 97.5 %: Fisher's expansion in 1/v (Abramowitz and Stegun 26.7.5), to 1 % for v
// >= 3.
double Table::quantile() const {
  constexpr double kZ = 1.959964;
  const double v = freedom_;
  const double z2 = kZ * kZ;
  return kZ * (1 + (z2 + 1) / (4 * v) + ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
               (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v));
}

double Table::half_width(const Series& one) const {
  if (one.runs.empty()) return HUGE_VAL;
  return quantile() * noise_ / std::sqrt(static_cast<double>(one.runs.size()));
}

double Table::half_width(const Series& one, const Series& other) const {
  if (&one == &other) return 0;
  return std::hypot(half_width(one), half_width(other));
}

bool is_smaller(const TuneRequest& request, const TuneSetting& one, const TuneSetting& other) {
  const auto size = [&](const TuneSetting& setting) {
    return std::tuple(setting.workers, setting.prefetch_factor,
                      rank_of(request, setting.start_method));
  };
  return size(one) < size(other);
}

Choice choose(const Table& table, const TuneRequest& request) {
  Choice choice;
  std::vector<const Series*> whole;
  for (const Series& series : table.series()) {
    const bool counts = series.setting.variant == TuneVariant::kWhole && !series.runs.empty();
    if (counts) whole.push_back(&series);
  }
  for (const Series* series : whole) {
    if (choice.best == nullptr || series->log_speed > choice.best->log_speed) choice.best = series;
  }
  if (choice.best == nullptr) return choice;
  for (const Series* series : whole) {
    const bool is_enough = series->log_speed - choice.best->log_speed >= std::log(kGoodShare);
    if (!is_enough) continue;
    if (choice.chosen == nullptr || is_smaller(request, series->setting, choice.chosen->setting))
      choice.chosen = series;
  }
  if (const auto setting = present_setting(request)) {
    const Series* present = table.find(*setting);
    if (present != nullptr && !present->runs.empty()) choice.present = present;
  }
  return choice;
}

bool is_surely_enough(const Table& table, const Series& one, const Series& other) {
  return one.log_speed - other.log_speed - table.half_width(one, other) >= std::log(kGoodShare);
}

bool is_surely_slower(const Table& table, const Series& one, const Series& other) {
  return one.log_speed - other.log_speed + table.half_width(one, other) < std::log(kGoodShare);
}

const TuneRequest* find_request(const RecordingView& recording) {
  for (const Run& run : recording.runs) {
    if (run.tune_request) return &*run.tune_request;
  }
  return nullptr;
}

std::optional<TuneSetting> present_setting(const TuneRequest& request) {
  if (!request.configured_workers) return std::nullopt;
  return TuneSetting{
      .workers = *request.configured_workers,
      .prefetch_factor = request.configured_prefetch_factor.value_or(request.base.prefetch_factor),
      .start_method =
          request.start_methods.empty() ? request.base.start_method : request.start_methods.front(),
      .variant = TuneVariant::kWhole};
}

std::optional<double> wanted_cpus(const Series& series) {
  double wanted_s = 0;
  double window_s = 0;
  for (const SpeedMeasurement* run : series.runs) {
    if (run->processes.empty()) continue;
    window_s += run->window_s;
    for (const ProcessCpu& process : run->processes)
      wanted_s += process.ran_s + process.queued_s;
  }
  if (window_s <= 0) return std::nullopt;
  return wanted_s / window_s;
}

WorkerCpu cpu_of_workers(const Series& series) {
  WorkerCpu sum;
  if (series.runs.empty()) return sum;
  for (const ProcessCpu& process : series.runs.back()->processes) {
    if (process.role != Role::kWorker) continue;
    ++sum.workers;
    sum.busy_threads += process.busy_threads;
    sum.most_busy_threads = std::max(sum.most_busy_threads, process.busy_threads);
    sum.ran_s += process.ran_s;
    sum.queued_s += process.queued_s;
    sum.preempted += process.preempted;
  }
  return sum;
}

bool is_oversubscribed(const Series& series, const TuneRequest& request) {
  constexpr double kMoreThanThereAre = 1.25;
  constexpr double kWaitsForCpu = 0.2;
  const WorkerCpu of_workers = cpu_of_workers(series);
  if (of_workers.most_busy_threads < 2) return false;
  const double cpus = usable_cpus(request);
  return of_workers.busy_threads > cpus &&
         wanted_cpus(series).value_or(0) > kMoreThanThereAre * cpus &&
         of_workers.queued_s > kWaitsForCpu * (of_workers.ran_s + of_workers.queued_s);
}

}  // namespace dlprobe::probes::tune
