#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fields.h"
#include "lib/base/own_words.h"
#include "lib/model/ids.h"
#include "lib/model/loader_plan.h"
#include "lib/model/process.h"

namespace dlprobe {

/// What a short run of `dlprobe tune` has of the job, or what is other about it.
enum class TuneVariant {
  kWhole,        ///< loader and training step, as the job has them
  kLoaderAlone,  ///< batches are taken, and no step is done
  kStepAlone,    ///< one batch is taken, and the step is done on it again and again
  kOneThread,    ///< whole, and the libraries in each worker are told to use one thread
};
template <>
struct Names<TuneVariant> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"whole", "loader-alone", "step-alone", "one-thread"});
};

/// What `dlprobe tune` varies.
struct TuneSetting {
  int32_t workers = 0;
  int32_t prefetch_factor = 2;
  StartMethod start_method = StartMethod::kFork;
  TuneVariant variant = TuneVariant::kWhole;
  bool operator==(const TuneSetting&) const = default;
};
constexpr void list_fields(auto&& field, Of<TuneSetting> /*of*/) {
  field("workers", &TuneSetting::workers, "worker processes");
  field("prefetch_factor", &TuneSetting::prefetch_factor, "of no meaning without workers");
  field("start_method", &TuneSetting::start_method, "how they come to be");
  field("variant", &TuneSetting::variant, "what the run has of the job");
}

/// The plan with the setting in it.
LoaderPlan plan_of(const LoaderPlan& base, const TuneSetting& setting);

/// What `dlprobe tune` was asked, and what the machine has for it; once for an examination.
struct TuneRequest {
  BootNs at = 0;
  LoaderPlan base;
  bool knows_batch = true;
  std::vector<int32_t> workers;
  std::vector<int32_t> prefetch_factors;
  std::vector<StartMethod> start_methods;
  std::optional<int32_t> configured_workers;
  std::optional<int32_t> configured_prefetch_factor;
  std::vector<TuneVariant> variants;
  double budget_s = 60;
  double window_s = 1;
  int32_t cpus = 0;
  std::optional<double> quota_cpus;
  std::string quota_source;
  std::optional<uint64_t> memory_left_bytes;
  std::string memory_source;
  std::optional<uint64_t> shm_free_bytes;
  std::optional<uint64_t> fd_limit;
  bool operator==(const TuneRequest&) const = default;
};
constexpr void list_fields(auto&& field, Of<TuneRequest> /*of*/) {
  field("at", &TuneRequest::at, "when it was asked", Unit::kMoment);
  field("plan", &TuneRequest::base, "all that is not varied");
  field("knows_batch", &TuneRequest::knows_batch,
        "What a batch takes is known; false: of a script that nobody described");
  field("workers", &TuneRequest::workers, "that are to be tried; empty: they are searched");
  field("prefetch_factors", &TuneRequest::prefetch_factors, "the same");
  field("start_methods", &TuneRequest::start_methods,
        "the first is the one that is searched under");
  field("now_workers", &TuneRequest::configured_workers, "what the job has now, if that was said");
  field("now_prefetch", &TuneRequest::configured_prefetch_factor, "the same");
  field("variants", &TuneRequest::variants, "that the subject can make, beside whole");
  field("budget", &TuneRequest::budget_s, "for all runs together", Unit::kSeconds);
  field("window", &TuneRequest::window_s, "that the steady state of a run is to be measured for",
        Unit::kSeconds);
  field("cpus", &TuneRequest::cpus, "that may be used (affinity)");
  field("quota", &TuneRequest::quota_cpus, "of the cgroup's CPU bandwidth: CPU time over time");
  field("quota_source", &TuneRequest::quota_source, "the file that says so");
  field("memory_left", &TuneRequest::memory_left_bytes, "before anything was started",
        Unit::kBytes);
  field("memory_source", &TuneRequest::memory_source, "the file that says so");
  field("shm_free", &TuneRequest::shm_free_bytes, "none: not limited, or not known", Unit::kBytes);
  field("fd_limit", &TuneRequest::fd_limit, "soft limit of open files of a process");
}

/// How many CPUs' worth of time the job may have: its affinity, or its quota if that is less.
double usable_cpus(const TuneRequest& request);

/// CPU time of one process over a window: /proc/PID/task/TID/schedstat and status of each thread.
struct ProcessCpu {
  ProcessKey key;
  Role role = Role::kOther;
  int32_t threads = 0;
  int32_t busy_threads = 0;
  double ran_s = 0;
  double queued_s = 0;
  uint64_t preempted = 0;
  bool operator==(const ProcessCpu&) const = default;
};
constexpr void list_fields(auto&& field, Of<ProcessCpu> /*of*/) {
  field("key", &ProcessCpu::key, "the process");
  field("role", &ProcessCpu::role, "what it is to the loader");
  field("thr", &ProcessCpu::threads, "at the end of the window");
  field("busy", &ProcessCpu::busy_threads,
        "Of them, those that ran or wanted to run for a fifth of the window or more");
  field("ran", &ProcessCpu::ran_s, "that its threads ran", Unit::kSeconds);
  field("queued", &ProcessCpu::queued_s, "ready to run, and without a CPU", Unit::kSeconds);
  field("preempted", &ProcessCpu::preempted, "nonvoluntary context switches");
}

/// What one short run showed of one setting, in its steady state: after the first
/// workers x prefetch_factor batches, which find the queues empty.
struct SpeedMeasurement {
  BootNs at = 0;
  TuneSetting setting;
  int32_t round = 0;
  double window_s = 0;
  int64_t batches = 0;
  int64_t samples = 0;
  double wait_s = 0;
  double step_s = 0;
  std::optional<double> first_batch_s;
  double cost_s = 0;
  std::vector<ProcessCpu> processes;
  std::optional<uint64_t> memory_bytes;
  std::optional<uint64_t> worker_memory_bytes;
  std::optional<uint64_t> shm_bytes;
  std::optional<uint64_t> fds;
  std::string failure;
  bool operator==(const SpeedMeasurement&) const = default;
};
constexpr void list_fields(auto&& field, Of<SpeedMeasurement> /*of*/) {
  field("at", &SpeedMeasurement::at, "the end of the window", Unit::kMoment);
  field("setting", &SpeedMeasurement::setting, "what was measured");
  field("round", &SpeedMeasurement::round, "runs of one round stand near to one another in time");
  field("window", &SpeedMeasurement::window_s, "how long it was measured", Unit::kSeconds);
  field("batches", &SpeedMeasurement::batches,
        "in the window; a multiple of the workers, which deliver in turns");
  field("samples", &SpeedMeasurement::samples, "in them");
  field("wait", &SpeedMeasurement::wait_s, "of the window: the training loop waited for a batch",
        Unit::kSeconds);
  field("step", &SpeedMeasurement::step_s, "copies to the device and training steps",
        Unit::kSeconds);
  field("first_batch", &SpeedMeasurement::first_batch_s, "from the start of the subject",
        Unit::kSeconds);
  field("cost", &SpeedMeasurement::cost_s, "that the whole run took", Unit::kSeconds);
  field("p", &SpeedMeasurement::processes, "in key order; empty: not read");
  field("memory", &SpeedMeasurement::memory_bytes, "PSS of all processes together, at its highest",
        Unit::kBytes);
  field("worker_memory", &SpeedMeasurement::worker_memory_bytes, "PSS of the worker that had most",
        Unit::kBytes);
  field("shm", &SpeedMeasurement::shm_bytes, "by which the use of /dev/shm rose", Unit::kBytes);
  field("fds", &SpeedMeasurement::fds, "of the process that had most");
  field("failure", &SpeedMeasurement::failure, "why there is no speed; empty: there is");
}

/// What became of a setting.
enum class TuneOutcome { kMeasured, kNotStarted, kFailed };
template <>
struct Names<TuneOutcome> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"measured", "not-started", "failed"});
};

/// One line of the table: all runs of one setting.
struct TuneRow {
  TuneSetting setting;
  TuneOutcome outcome = TuneOutcome::kMeasured;
  std::string why;   ///< it was not started, or failed
  int32_t runs = 0;  ///< that gave a speed
  double batches_per_s = 0;
  double samples_per_s = 0;
  double plus_minus = 0;                ///< half of the 95 % interval, as a share of the speed
  double of_best = 0;                   ///< share of the best speed of a whole loader
  double wait_share = 0;                ///< of the training loop's time
  std::optional<double> first_batch_s;  ///< of the fastest run
  std::optional<uint64_t> memory_bytes;
  std::optional<uint64_t> shm_bytes;
  std::optional<uint64_t> fds;
  uint64_t shm_forecast_bytes = 0;
  uint64_t fd_forecast = 0;
  std::optional<double>
      wanted_cpus;  ///< threads of all processes that ran or wanted to, on average
  bool operator==(const TuneRow&) const = default;
};

/// What keeps the job from being faster.
enum class TuneLimit {
  kUnknown,
  kConsumer,  ///< the training step: the loader keeps up with it
  kLoader,    ///< the training loop waits for batches
  kCpus,      ///< loader and step want the same CPUs
};
template <>
struct Names<TuneLimit> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"unknown", "consumer", "loader", "cpus"});
};

/// What `dlprobe tune` says beside its findings.
struct TuneResult {
  TuneRequest request;
  std::vector<TuneRow> rows;      ///< by variant, start method, workers, prefetch factor
  std::optional<size_t> best;     ///< of `rows`: the fastest whole loader
  std::optional<size_t> chosen;   ///< the smallest within 5 % of it
  std::optional<size_t> present;  ///< what the job has now
  bool is_settled = false;        ///< the repeats tell the chosen one from those that it beats
  bool differs = false;           ///< the best is faster than the chosen one by more than the noise
  double noise = 0;               ///< relative standard deviation of one run
  TuneLimit limit = TuneLimit::kUnknown;
  std::string limit_text;  ///< why, with the numbers
  std::string line;        ///< of the script, as it should be
  OwnWords headline;
  bool operator==(const TuneResult&) const = default;
};

}  // namespace dlprobe
