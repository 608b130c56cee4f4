#pragma once

#include <map>
#include <optional>
#include <vector>

#include "lib/collect/snapshot/cpu_look.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/model/tuning.h"
#include "lib/session/tree_use.h"

namespace dlprobe {

/// Measures the steady state of one run from its records, and passes them on: from the reference
/// loader's batches, or from what the shim in a Python command tells of its batches now and then.
///
/// The first workers x prefetch_factor batches are left out: they find the queues empty. The window
/// begins with the last of them and ends when it is long enough and holds some turns of all
/// workers.
class SpeedMeter : public RecordSink {
 public:
  /// The window is to be as long as `request` has it; a slow subject gets more.
  SpeedMeter(const Machine& machine, RecordSink& sink, const TuneSetting& setting,
             const TuneRequest& request);

  void add(Record record) override;

  /// Whether enough was seen, or nothing more is worth waiting for. Takes the last look at CPU
  /// times when it is so for the first time.
  bool is_enough();

  /// What was seen. Without a steady state `failure` says so.
  SpeedMeasurement result() const;

 private:
  /// What had come by then.
  struct Progress {
    BootNs at = 0;
    int64_t batches = 0;
    int64_t samples = 0;
    double wait_s = 0;
    double step_s = 0;
  };
  void take(const LoaderBatch& batch);
  void take(const StartEvent& event);
  void note(const Progress& progress);
  double since_start_s() const;
  int64_t turn() const;
  const Progress* end_of_window() const;
  bool has_window() const;

  const Machine& machine_;
  RecordSink& sink_;
  TuneSetting setting_;
  double window_s_;
  double most_s_;
  BootNs started_at_;
  int64_t to_leave_out_;
  Progress sum_;
  std::vector<Progress> window_;           ///< the first is what it begins with
  std::map<ProcessKey, StartEvent> told_;  ///< the last word on batches of each process
  std::optional<BootNs> first_batch_at_;
  TreeUse use_;
  std::optional<CpuLook> before_;
  std::optional<CpuLook> after_;
  std::string error_;  ///< that the subject told of
};

}  // namespace dlprobe
