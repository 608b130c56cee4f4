#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/recording.h"
#include "lib/model/tuning.h"
#include "lib/subject/python_shim.h"
#include "lib/subject/trial_warden.h"
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
  /// What it has told beside its progress lines since the last call.
  virtual std::vector<StartEvent> news() { return {}; }
  /// Whether it has settings of its own, which start_as_it_is() shows: by kLoaderMade.
  virtual bool tells_its_own() const { return false; }
  virtual Expected<WatchTarget> start_as_it_is() {
    return failure(ErrorCode::kUnsupported, "it has no settings of its own");
  }
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

/// A Python command, whose DataLoaders get other settings by the shim. What it prints goes nowhere:
/// it runs again and again.
class CommandTuneSubject : public TuneSubject {
 public:
  CommandTuneSubject(const Machine& machine, const TuneRequest& wish,
                     std::vector<std::string> command)
      : machine_(machine), wish_(wish), command_(std::move(command)) {}

  SubjectKind kind() const override { return SubjectKind::kCommand; }
  std::vector<TuneVariant> variants() const override { return {TuneVariant::kOneThread}; }
  Expected<WatchTarget> start(const TuneSetting& setting, int number) override;
  std::vector<StartEvent> news() override;
  bool tells_its_own() const override { return true; }
  Expected<WatchTarget> start_as_it_is() override;

 private:
  Expected<WatchTarget> start_with(const ShimOptions& options, bool one_thread);

  const Machine& machine_;
  const TuneRequest& wish_;
  std::vector<std::string> command_;
  std::optional<PythonShim> shim_;     ///< of the run that goes on
  std::optional<TrialWarden> warden_;  ///< ends it should dlprobe be killed
};

/// What is to be tuned, and how.
struct TuneOptions {
  TuneRequest wish;                    ///< as far as the user says: settings, budget
  std::vector<std::string> arguments;  ///< dlprobe's own, for the report
  std::vector<std::string> command;    ///< to be tuned; empty: the reference loader
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  std::string record_path;  ///< empty: keep no file
  bool show_progress = false;
};

/// Sweeps over the settings of `options` on the command, or on the reference loader: asks
/// next_tune_step() what to run, runs and measures it, until nothing is left to find out or the
/// time is up.
Examination tune(const TuneOptions& options);

}  // namespace dlprobe
