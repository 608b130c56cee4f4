#pragma once

#include <chrono>
#include <string>

#include <CLI/CLI.hpp>

#include "lib/base/error.h"
#include "lib/collect/snapshot/snapshot.h"
#include "lib/session/examination.h"
#include "probes/probe.h"

namespace dlprobe {

/// How much a look at stacks may disturb, as typed.
struct PauseOptions {
  std::string max_pause = "5ms";
  bool no_pause = false;
};
void add_pause_options(CLI::App& command, PauseOptions& options, const std::string& group);
/// kInvalid for a pause that is none, or longer than a second.
Expected<SnapshotOptions> snapshot_options(const PauseOptions& options);

/// How often to look, and what to keep of it, as typed.
struct SamplingOptions {
  std::string interval = "100ms";
  std::string record_path;
};
/// Adds --interval and --record.
void add_sampling_options(CLI::App& command, SamplingOptions& options, const std::string& group);
/// Takes them over into `request`. kInvalid for an interval that is none or out of range.
Status put_sampling_options(const SamplingOptions& options, ExamineRequest& request);

/// How long and how often to look, and what to keep of it, as typed.
struct WatchOptions {
  std::string watch_for;
  SamplingOptions sampling;
  PauseOptions pause;
};

/// Adds --for, --interval and --record, and for a probe that takes snapshots --max-pause and
/// --no-pause.
void add_watch_options(CLI::App& command, WatchOptions& options, const Probe& probe,
                       const std::string& group);

/// How long a live process is watched unless the user says otherwise.
std::chrono::nanoseconds default_watch_of_pid(const Probe& probe);

/// Takes them over into `request`, whose subject is set. kInvalid for what is no duration or out of
/// range.
Status put_watch_options(const WatchOptions& options, const Probe& probe, ExamineRequest& request);

}  // namespace dlprobe
