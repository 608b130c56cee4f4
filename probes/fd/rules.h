#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/model/finding.h"
#include "probes/facts/trend.h"
#include "probes/fd/facts.h"
#include "probes/fd/growth.h"

namespace dlprobe::probes::fd {

/// A process that stood at its limit.
struct Exhaustion {
  const Series* series = nullptr;
  BootNs from = 0;             ///< first seen there
  BootNs to = 0;               ///< last seen there
  std::optional<FdKind> kind;  ///< most of its descriptors were of that kind
  uint64_t of_kind = 0;
  std::optional<FailedExit> failure;  ///< the end of it, or of the job, while it stood there
  BootNs still_for = 0;               ///< so long, up to the end, nothing of the tree moved
};
std::vector<Exhaustion> find_exhaustions(const Facts& facts);

/// Descriptors of one kind, or two, that a process keeps opening and does not close.
struct Leak {
  const Series* series = nullptr;
  FdKind kind = FdKind::kFile;
  std::optional<FdKind> second;  ///< grows as the first one
  bool are_event_loops = false;  ///< of asyncio: an epoll and a pair of sockets each
  uint64_t of_kind = 0;          ///< at the end of the growth
  CountGrowth growth;
  std::optional<Growth> brief;  ///< known by a growth that may come to an end yet
  /// The trainer holds more segments than all that the loader can have in flight.
  bool exceeds_flight = false;
  std::optional<double> seconds_left;      ///< to the limit; none: no limit
  const Exhaustion* exhaustion = nullptr;  ///< it reached the limit
  bool has_ended = false;                  ///< its process did, before the limit was reached
};
/// Those that led to an exhaustion, and those that will or may lead to one.
std::vector<Leak> find_leaks(const Facts& facts, const std::vector<Exhaustion>& exhaustions);

/// DLP0201: the plan's forecast, or what the loader had in flight when it stood at its limit.
std::optional<Finding> limit_too_low(const Facts& facts, const std::vector<Exhaustion>& exhaustions,
                                     const std::vector<Leak>& leaks);
/// DLP0202: one for all that stood at their limit; nothing if none did.
std::optional<Finding> descriptors_exhausted(const Facts& facts,
                                             const std::vector<Exhaustion>& exhaustions);
/// DLP0202 of a process that ended before dlprobe could look at it.
std::optional<Finding> refused_unseen(const Facts& facts);
/// DLP0202, where the limit is that of the whole machine (ENFILE).
std::optional<Finding> files_of_machine_exhausted(const Facts& facts);
/// DLP0203.
std::optional<Finding> kept_batches(const Facts& facts, const std::vector<Leak>& leaks);
/// DLP0204: one for each kind.
std::vector<Finding> leaks_by_kind(const Facts& facts, const std::vector<Leak>& leaks);
/// DLP0206.
std::optional<Finding> mappings_exhausted(const Facts& facts);
/// DLP0206 ahead: the process that comes to the limit first.
std::optional<Finding> growing_mappings(const Facts& facts);

/// What about descriptors could not be seen.
std::vector<Gap> gaps_of(const Facts& facts);

/// A limit that a person would choose so that `needed` fit with room to spare: a power of two, at
/// least 1024.
uint64_t comfortable_limit(uint64_t needed);

/// Ways to a higher limit than there is now, the one for where the subject runs first.
void add_limit_remedies(Finding& finding, const Facts& facts, uint64_t limit, const Limit& now);
/// The sharing strategy that takes no descriptor for a tensor.
void add_strategy_remedy(Finding& finding);

}  // namespace dlprobe::probes::fd
