#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/recording.h"
#include "lib/model/tune_step.h"
#include "lib/model/tuning.h"
#include "lib/session/examination.h"
#include "lib/session/process_control.h"
#include "lib/session/recorder.h"
#include "lib/session/watch.h"
#include "lib/subject/python_shim.h"

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
  LoaderTuneSubject(const Surroundings& surroundings, std::string executable, LoaderPlan base,
                    int cpus)
      : surroundings_(surroundings),
        executable_(std::move(executable)),
        base_(std::move(base)),
        cpus_(cpus) {}

  SubjectKind kind() const override { return SubjectKind::kReferenceLoader; }
  std::vector<TuneVariant> variants() const override;
  Expected<WatchTarget> start(const TuneSetting& setting, int number) override;

 private:
  const Surroundings& surroundings_;
  std::string executable_;
  LoaderPlan base_;
  int cpus_;
};

/// A Python command, whose DataLoaders get other settings by the shim. What it prints goes nowhere:
/// it runs again and again.
class CommandTuneSubject : public TuneSubject {
 public:
  CommandTuneSubject(const Surroundings& surroundings, const TuneRequest& wish,
                     std::vector<std::string> command)
      : surroundings_(surroundings), wish_(wish), command_(std::move(command)) {}

  SubjectKind kind() const override { return SubjectKind::kCommand; }
  std::vector<TuneVariant> variants() const override { return {TuneVariant::kOneThread}; }
  Expected<WatchTarget> start(const TuneSetting& setting, int number) override;
  std::vector<StartEvent> news() override;
  bool tells_its_own() const override { return true; }
  Expected<WatchTarget> start_as_it_is() override;

 private:
  Expected<WatchTarget> start_with(const ShimOptions& options, bool one_thread);

  const Surroundings& surroundings_;
  const TuneRequest& wish_;
  std::vector<std::string> command_;
  std::optional<PythonShim> shim_;  ///< of the run that goes on
  std::shared_ptr<void> guard_;     ///< ends it should dlprobe be killed
};

/// What is to be tuned, and how.
struct TuneOptions {
  TuneRequest wish;                    ///< as far as the user says: settings, budget
  std::vector<std::string> arguments;  ///< dlprobe's own, for the report
  std::vector<std::string> command;    ///< to be tuned; empty: the reference loader
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  std::string record_path;  ///< empty: keep no file
  /// What to run next, from what the runs so far have shown; nothing: all is known.
  std::function<std::optional<TuneStep>(const RecordingView&)> next_step;
};

/// Sweeps over the settings of `options` on the command, or on the reference loader: asks what to
/// run next, runs and measures it, until nothing is left to find out or the time is up.
Examination tune(const TuneOptions& options, const Surroundings& surroundings);

}  // namespace dlprobe
