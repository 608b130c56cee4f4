#pragma once

#include <optional>
#include <vector>

#include "lib/model/finding.h"
#include "probes/memory/facts.h"

namespace dlprobe::probes::memory {

// Each gives what it finds in one run; nothing where the rule does not apply.
std::optional<Finding> copy_on_write_growth(const Facts& facts);  // DLP0504
/// DLP0505 of workers, of the training process and of other processes, each one finding; DLP0506 of
/// those that grow because what they send is not taken.
std::vector<Finding> growing_processes(const Facts& facts);
/// DLP0505 of shared memory: of segments, and of mappings without a file that processes share.
std::optional<Finding> shared_memory_growth(const Facts& facts);
/// DLP0506: batches in shared memory that the training loop has not taken yet.
std::optional<Finding> prefetch_backlog(const Facts& facts);
std::optional<Finding> swap_thrash(const Facts& facts);    // DLP0507
std::optional<Finding> limit_too_low(const Facts& facts);  // DLP0508

/// What about memory could not be seen, and without which nothing can be said.
std::vector<Gap> gaps_of(const Facts& facts);
/// What was not looked at, and the verdict stands without.
std::vector<Gap> limits_of(const Facts& facts);

/// "4.0 MiB/s".
OwnWords rate_text(double bytes_per_second);

/// How a series of a process grows, long or for some seconds; nothing where that is to be expected
/// of it.
std::optional<Growth> find_growth_of_process(const Facts& facts, const Series& process,
                                             std::vector<SeriesPoint> series);
/// How much grew, for how long, and how sure that is.
void set_growth(Finding& finding, const Growth& growth, const Message& source);
/// Where growth leads to, by what the limit left: for the message, the severity and the evidence.
void set_outlook(Finding& finding, const Facts& facts, const Growth& growth,
                 const std::optional<MemoryLimit>& limit);

}  // namespace dlprobe::probes::memory
