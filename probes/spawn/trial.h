#pragma once

#include <optional>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording_view.h"

namespace dlprobe::probes::spawn {

/// What one trial of a command left open, beside the others of the recording: each gap names the
/// start method.
std::vector<Gap> gaps_of_trial(const Run& run, const RecordingView& recording);

/// Whether the command of a trial failed before it started a process: so it will under any start
/// method.
bool failed_by_itself(const Run& run);

/// Whether a command that starts processes fails or stands still under spawn or forkserver, and no
/// rule knows why: a trial under fork, which none of these trials was, tells if that is the reason.
bool wants_control(const RecordingView& recording);

/// DLP0411 in a trial whose command failed without a known reason: it does not under fork, in
/// another trial of the recording. Nothing where there is no such trial, or it failed as well.
std::optional<Finding> state_not_inherited(const Run& run, const RecordingView& recording);

}  // namespace dlprobe::probes::spawn
