#pragma once

#include <optional>

#include "lib/model/finding.h"
#include "lib/model/recording_view.h"
#include "lib/model/tuning.h"
#include "probes/tune/table.h"

namespace dlprobe::probes::tune {

/// What the rules are given.
struct Facts {
  RecordingView recording;
  const TuneRequest& request;
  const Table& table;
  Choice choice;
};

/// "4 workers, prefetch factor 2"; "no workers".
OwnWords describe(const TuneSetting& setting);

/// DLP0601: the job has more workers than the chosen setting, which is surely enough.
std::optional<Finding> find_too_many_workers(const Facts& facts);

/// DLP0602: threads in the workers want more CPUs than there are and wait for them, and with one
/// thread in each the job is faster beyond the noise.
std::optional<Finding> find_thread_oversubscription(const Facts& facts);

}  // namespace dlprobe::probes::tune
