#pragma once

#include <optional>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "lib/model/tuning.h"
#include "probes/tune_table.h"

namespace dlprobe {

/// What the rules are given.
struct TuneFacts {
  const Recording& recording;
  const TuneRequest& request;
  const TuneTable& table;
  TuneChoice choice;
};

/// "4 workers, prefetch factor 2"; "no workers".
std::string describe(const TuneSetting& setting);

/// What the libraries read that start threads of their own, for one thread in each process.
std::vector<Setting> one_thread_settings();

/// DLP0601: the job has more workers than the chosen setting, which is surely enough.
std::optional<Finding> find_too_many_workers(const TuneFacts& facts);

/// DLP0602: threads in the workers want more CPUs than there are and wait for them, and with one
/// thread in each the job is faster beyond the noise.
std::optional<Finding> find_thread_oversubscription(const TuneFacts& facts);

}  // namespace dlprobe
