#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/session/examination.h"
#include "lib/session/process_control.h"
#include "lib/session/recorder.h"
#include "lib/session/surroundings.h"
#include "lib/session/watch.h"
#include "lib/subject/launch_limits.h"

namespace dlprobe {

/// What the runs of one subject work with, and what has come of them.
struct RunContext {
  /// What is given must outlive it. Signals to dlprobe are held back while it lives.
  RunContext(const ExamineRequest& asked, const Surroundings& around, Recorder& records);
  ~RunContext() = default;
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  BootNs now() const { return machine.clock->now(); }
  /// When the time to watch that begins now is up, if it ever is.
  std::optional<BootNs> deadline() const;

  /// Begins the run that `begin` tells of. `limits`: what the subject starts within.
  void begin_run(RunBegin begin, const LaunchLimits& limits);
  void end_run(RunEndReason reason, Message text);
  void add_note(Message text);

  /// There is nothing to report on. Returns nothing, of any kind.
  std::nullopt_t refuse(Error error, Refusal::Kind kind);
  /// No run is to follow.
  bool is_over() const { return result.refusal || result.interrupted_by != 0; }

  /// Nothing, and a refusal, if they cannot be had.
  std::optional<LaunchScope> prepare_limits(const LaunchLimits& limits);
  void close_limits(LaunchScope& scope);
  /// Nothing, and a refusal of a kind that `kind` names, if it cannot be started.
  std::optional<ProcessKey> start(const ChildSpec& spec, Refusal::Kind (*kind)(const Error&));

  /// Watches it as the request has it; what `target` says of that itself stays.
  WatchResult watch(WatchTarget target, WatchGuide& guide);

  /// What the rules say of the current run.
  bool is_stuck() const { return judge.is_stuck(recorder.current_run_alone()); }
  bool has_error() const;

  const ExamineRequest& request;
  const Machine& machine;
  ProcessControl& control;
  const Judge& judge;
  Notices& notices;
  const EnvironmentLookup& environment;
  Recorder& recorder;
  std::unique_ptr<HeldSignals> signals;
  Examination result;  ///< all but the recording, which is the recorder's
};

}  // namespace dlprobe
