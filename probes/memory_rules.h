#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "probes/memory_facts.h"

namespace dlprobe {

// Each gives what it finds in one run; nothing where the rule does not apply.
std::optional<Finding> copy_on_write_growth(const MemoryFacts& facts);  // DLP0504
/// DLP0505 of workers, of the training process and of other processes, each one finding; DLP0506 of
/// those that grow because what they send is not taken.
std::vector<Finding> growing_processes(const MemoryFacts& facts);
/// DLP0505 of shared memory: of segments, and of mappings without a file that processes share.
std::optional<Finding> shared_memory_growth(const MemoryFacts& facts);
/// DLP0506: batches in shared memory that the training loop has not taken yet.
std::optional<Finding> prefetch_backlog(const MemoryFacts& facts);
std::optional<Finding> swap_thrash(const MemoryFacts& facts);    // DLP0507
std::optional<Finding> limit_too_low(const MemoryFacts& facts);  // DLP0508

/// What about memory could not be seen, and without which nothing can be said.
std::vector<Gap> memory_gaps(const MemoryFacts& facts);
/// What was not looked at, and the verdict stands without.
std::vector<Gap> memory_limits(const MemoryFacts& facts);

/// "4.0 MiB/s".
std::string rate_text(double bytes_per_second);
/// How much grew, for how long, and how sure that is.
void set_growth(Finding& finding, const Growth& growth, std::string_view source);
/// Where growth leads to, by what the limit left: for the message, the severity and the evidence.
void set_outlook(Finding& finding, const MemoryFacts& facts, const Growth& growth,
                 const std::optional<MemoryLimit>& limit);

}  // namespace dlprobe
