#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
std::string_view to_string(TuneVariant variant);  ///< "whole", "loader-alone", ...
TuneVariant tune_variant_from_string(std::string_view name);

/// What `dlprobe tune` varies.
struct TuneSetting {
  int32_t workers = 0;
  int32_t prefetch_factor = 2;  ///< of no meaning without workers
  StartMethod start_method = StartMethod::kFork;
  TuneVariant variant = TuneVariant::kWhole;
  bool operator==(const TuneSetting&) const = default;
};

/// The plan with the setting in it.
LoaderPlan plan_of(const LoaderPlan& base, const TuneSetting& setting);

/// What `dlprobe tune` was asked, and what the machine has for it; once for an examination.
struct TuneRequest {
  BootNs at = 0;
  LoaderPlan base;  ///< all that is not varied
  /// What a batch takes is known; false: of a script that nobody described.
  bool knows_batch = true;
  std::vector<int32_t> workers;               ///< that are to be tried; empty: they are searched
  std::vector<int32_t> prefetch_factors;      ///< the same
  std::vector<StartMethod> start_methods;     ///< the first is the one that is searched under
  std::optional<int32_t> configured_workers;  ///< what the job has now, if that was said
  std::optional<int32_t> configured_prefetch_factor;  ///< the same
  std::vector<TuneVariant> variants;                  ///< that the subject can make, beside kWhole
  double budget_s = 60;                               ///< for all runs together
  double window_s = 1;               ///< that the steady state of a run is to be measured for
  int32_t cpus = 0;                  ///< that may be used (affinity)
  std::optional<double> quota_cpus;  ///< of the cgroup's CPU bandwidth: CPU time over time
  std::string quota_source;          ///< the file that says so
  std::optional<uint64_t> memory_left_bytes;  ///< before anything was started
  std::string memory_source;
  std::optional<uint64_t> shm_free_bytes;  ///< none: not limited, or not known
  std::optional<uint64_t> fd_limit;        ///< soft limit of open files of a process
  bool operator==(const TuneRequest&) const = default;
};

/// How many CPUs' worth of time the job may have: its affinity, or its quota if that is less.
double usable_cpus(const TuneRequest& request);

/// CPU time of one process over a window: /proc/PID/task/TID/schedstat and status of each thread.
struct ProcessCpu {
  ProcessKey key;
  Role role = Role::kOther;
  int32_t threads = 0;  ///< at the end of the window
  /// Of them, those that ran or wanted to run for a fifth of the window or more.
  int32_t busy_threads = 0;
  double ran_s = 0;
  double queued_s = 0;     ///< ready to run, and without a CPU
  uint64_t preempted = 0;  ///< nonvoluntary context switches
  bool operator==(const ProcessCpu&) const = default;
};

/// What one short run showed of one setting, in its steady state: after the first
/// workers x prefetch_factor batches, which find the queues empty.
struct SpeedMeasurement {
  BootNs at = 0;  ///< the end of the window
  TuneSetting setting;
  int32_t round = 0;  ///< runs of one round stand near to one another in time
  double window_s = 0;
  int64_t batches = 0;  ///< in the window; a multiple of the workers, which deliver in turns
  int64_t samples = 0;
  double wait_s = 0;                     ///< of the window: the training loop waited for a batch
  double step_s = 0;                     ///< copies to the device and training steps
  std::optional<double> first_batch_s;   ///< from the start of the subject
  double cost_s = 0;                     ///< that the whole run took
  std::vector<ProcessCpu> processes;     ///< in key order; empty: not read
  std::optional<uint64_t> memory_bytes;  ///< PSS of all processes together, at its highest
  std::optional<uint64_t> worker_memory_bytes;  ///< PSS of the worker that had most
  std::optional<uint64_t> shm_bytes;            ///< by which the use of /dev/shm rose
  std::optional<uint64_t> fds;                  ///< of the process that had most
  std::string failure;                          ///< why there is no speed; empty: there is
  bool operator==(const SpeedMeasurement&) const = default;
};

/// What became of a setting.
enum class TuneOutcome { kMeasured, kNotStarted, kFailed };
std::string_view to_string(TuneOutcome outcome);  ///< "measured", "not-started", "failed"

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
std::string_view to_string(TuneLimit limit);  ///< "unknown", "consumer", "loader", "cpus"

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
  std::string headline;
  bool operator==(const TuneResult&) const = default;
};

}  // namespace dlprobe
