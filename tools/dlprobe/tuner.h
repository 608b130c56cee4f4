#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/recording.h"
#include "lib/model/tuning.h"
#include "tools/dlprobe/examine.h"
#include "tools/dlprobe/recorder.h"
#include "tools/dlprobe/watch.h"

namespace dlprobe {

/// What `dlprobe tune` runs again and again, each time with another setting.
class TuneSubject {
 public:
  virtual ~TuneSubject() = default;
  TuneSubject() = default;
  TuneSubject(const TuneSubject&) = delete;
  TuneSubject& operator=(const TuneSubject&) = delete;

  virtual SubjectKind kind() const = 0;
  /// What it can do beside a whole run.
  virtual std::vector<TuneVariant> variants() const = 0;
  /// Starts it: what is to be watched, which ends with the watch and tells of every batch by
  /// records. `number` is another for each run.
  virtual Expected<WatchTarget> start(const TuneSetting& setting, int number) = 0;
};

/// The reference loader.
class LoaderTuneSubject : public TuneSubject {
 public:
  /// `base`: all that is not varied. `cpus`: threads that the training step may have.
  LoaderTuneSubject(const Machine& machine, std::string executable, LoaderPlan base, int cpus)
      : machine_(machine),
        executable_(std::move(executable)),
        base_(std::move(base)),
        cpus_(cpus) {}

  SubjectKind kind() const override { return SubjectKind::kReferenceLoader; }
  std::vector<TuneVariant> variants() const override;
  Expected<WatchTarget> start(const TuneSetting& setting, int number) override;

 private:
  const Machine& machine_;
  std::string executable_;
  LoaderPlan base_;
  int cpus_;
};

/// What is to be tuned, and how.
struct TuneOptions {
  TuneRequest wish;                    ///< as far as the user says: settings, budget
  std::vector<std::string> arguments;  ///< dlprobe's own, for the report
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  std::string record_path;  ///< empty: keep no file
  bool show_progress = false;
};

/// Sweeps over the settings of `options` on the reference loader: asks next_tune_step() what to
/// run, runs and measures it, until nothing is left to find out or the time is up.
Examination tune_reference_loader(const TuneOptions& options);

}  // namespace dlprobe
