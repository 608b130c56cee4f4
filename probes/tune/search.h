#pragma once

#include <optional>
#include <string>

#include "lib/model/recording_view.h"
#include "lib/model/tune_step.h"
#include "lib/model/tuning.h"

namespace dlprobe::probes::tune {

/// The next run of a sweep, from what the runs so far have shown; nothing when there is nothing
/// left to find out, or no time. A pure function, so that a sweep can be tested without a loader:
///
/// 1. the training step alone, which no loader can be faster than;
/// 2. workers 0, 1, 2, 4 ... up to two more than there are CPUs, while more are faster;
/// 3. prefetch factors beside the first;
/// 4. numbers of workers between those;
/// 5. of what looks best: the loader alone, one thread in each worker, other start methods;
/// 6. again whatever cannot be told apart, in turns.
std::optional<TuneStep> next_step(const RecordingView& recording);

/// Why a setting would not fit in this machine's shared memory, descriptors or memory, by the
/// forecasts and by what a worker had in the runs so far; empty: it would.
std::string why_it_does_not_fit(const RecordingView& recording, const TuneSetting& setting);

/// Whether more runs could still change the answer.
bool is_settled(const RecordingView& recording);

}  // namespace dlprobe::probes::tune
