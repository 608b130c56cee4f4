#pragma once

#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe::probes::data {

/// DLP0801: workers of one loader that draw for their samples from a generator which began in the
/// same state in each. One for each data set.
std::vector<Finding> repeated_numbers(const Run& run);

/// DLP0802: workers of one loader that read the same samples of an IterableDataset, or some of
/// them. One for each data set.
std::vector<Finding> repeated_samples(const Run& run);

/// DLP0802: ranks of one job that learn from the same samples.
std::vector<Finding> repeated_by_ranks(const Run& run);

/// DLP0803: batches that came with other values than their workers had sent. One for each place
/// where batches are made.
std::vector<Finding> overwritten_batches(const Run& run);

/// What findings of this probe have in common; `events`: the first is where the data is made.
Finding data_finding(FindingCode code, const std::vector<const StartEvent*>& events,
                     std::vector<ProcessKey> processes);

}  // namespace dlprobe::probes::data
