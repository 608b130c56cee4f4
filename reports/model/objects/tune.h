#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/tuning.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// What the machine has room for.
struct TuneRoom {
  uint64_t cpus = 0;
  std::optional<double> quota_cpus;
  std::optional<std::string> quota_source;
  double usable_cpus = 0;
  std::optional<uint64_t> memory_left_bytes;
  std::optional<uint64_t> shm_free_bytes;
  std::optional<uint64_t> open_files_limit;
};
constexpr void list_fields(auto&& field, Of<TuneRoom> /*of*/) {
  field("cpus", &TuneRoom::cpus, "by affinity");
  field("quota_cpus", &TuneRoom::quota_cpus, "CPU time over time that the cgroup may have");
  field("quota_source", &TuneRoom::quota_source, Holds::kPath);
  field("usable_cpus", &TuneRoom::usable_cpus);
  field("memory_left_bytes", &TuneRoom::memory_left_bytes);
  field("shm_free_bytes", &TuneRoom::shm_free_bytes);
  field("open_files_limit", &TuneRoom::open_files_limit);
}

/// All runs of one setting.
struct TuneRow {
  uint64_t workers = 0;
  uint64_t prefetch_factor = 0;
  StartMethod start_method{};
  TuneVariant variant{};
  TuneOutcome outcome{};
  std::optional<std::string> why;
  uint64_t runs = 0;
  std::optional<double> batches_per_s;
  std::optional<double> samples_per_s;
  std::optional<double> plus_minus_share;
  std::optional<double> share_of_best;
  std::optional<double> wait_share;
  std::optional<double> first_batch_s;
  std::optional<double> wanted_cpus;
  std::optional<uint64_t> memory_bytes;
  std::optional<uint64_t> shm_bytes;
  std::optional<uint64_t> fds;
  std::optional<uint64_t> shm_forecast_bytes;
  std::optional<uint64_t> fd_forecast;
};
constexpr void list_fields(auto&& field, Of<TuneRow> /*of*/) {
  field("workers", &TuneRow::workers);
  field("prefetch_factor", &TuneRow::prefetch_factor);
  field("start_method", &TuneRow::start_method);
  field("variant", &TuneRow::variant,
        "whole: loader and training step; one-thread: whole, with one thread for libraries in each "
        "worker");
  field("outcome", &TuneRow::outcome);
  field("why", &TuneRow::why, "it was not started, or failed");
  field("runs", &TuneRow::runs, "that gave a speed");
  field("batches_per_s", &TuneRow::batches_per_s);
  field("samples_per_s", &TuneRow::samples_per_s);
  field("plus_minus_share", &TuneRow::plus_minus_share,
        "half of the 95 % interval of the speed, as a share of it");
  field("share_of_best", &TuneRow::share_of_best, "of the fastest whole setting");
  field("wait_share", &TuneRow::wait_share,
        "share of the training loop's time spent waiting for data");
  field("first_batch_s", &TuneRow::first_batch_s,
        "from the start of the program, of the fastest run");
  field("wanted_cpus", &TuneRow::wanted_cpus,
        "threads of all processes that ran or were ready to, on average");
  field("memory_bytes", &TuneRow::memory_bytes, "PSS of all processes together, at its highest");
  field("shm_bytes", &TuneRow::shm_bytes, "by which the use of /dev/shm rose");
  field("fds", &TuneRow::fds, "open files of the process that had most");
  field("shm_forecast_bytes", &TuneRow::shm_forecast_bytes);
  field("fd_forecast", &TuneRow::fd_forecast);
}

/// What keeps the loader from being faster.
struct TuneLimitText {
  TuneLimit what{};
  std::string text;
};
constexpr void list_fields(auto&& field, Of<TuneLimitText> /*of*/) {
  field("what", &TuneLimitText::what);
  field("text", &TuneLimitText::text, Holds::kWord);
}

/// What dlprobe tune has measured and recommends.
struct Tune {
  TuneRoom room;
  double budget_s = 0;
  double window_s = 0;
  double noise_share = 0;
  std::optional<TuneRow> recommended;
  std::optional<TuneRow> fastest;
  std::optional<TuneRow> present;
  std::optional<std::string> line;
  std::optional<bool> is_settled;
  std::optional<bool> fastest_is_faster;
  std::optional<TuneLimitText> limit;
  std::vector<TuneRow> settings;
};
constexpr void list_fields(auto&& field, Of<Tune> /*of*/) {
  field("room", &Tune::room);
  field("budget_s", &Tune::budget_s);
  field("window_s", &Tune::window_s, "that the steady state of a run was to be measured for");
  field("noise_share", &Tune::noise_share, "relative standard deviation of one run");
  field("recommended", &Tune::recommended,
        "all runs of one setting of dlprobe tune; without a speed where none was measured");
  field("fastest", &Tune::fastest,
        "all runs of one setting of dlprobe tune; without a speed where none was measured");
  field("present", &Tune::present, "what the job has now");
  field("line", &Tune::line, Holds::kWord, "of the script, as it should be");
  field("is_settled", &Tune::is_settled,
        "the repeats tell the recommended setting from those that are too slow or too large");
  field("fastest_is_faster", &Tune::fastest_is_faster,
        "than the recommended one, beyond the noise");
  field("limit", &Tune::limit);
  field("settings", &Tune::settings);
}

}  // namespace dlprobe::report
